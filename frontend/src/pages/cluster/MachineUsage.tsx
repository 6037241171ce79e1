import { NativeSelect } from "@mantine/core";
import { useInViewport } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type MachineCordon, machineUsageQuery, type RayNode } from "@/api/deployment";
import { ErrorState } from "@/components/ErrorState";
import { onDemand } from "@/components/onDemand";
import { Panel } from "@/components/Panel";
import { choicesOf, RANGES } from "@/pages/cluster/machineUsage";
import css from "./cluster.module.css";

const MachineCharts = onDemand(() => import("@/pages/cluster/MachineCharts"), "default");
const DAY = "24";

/** The usage of a selected machine over time; loaded only while on screen. */
export function MachineUsage({ nodes, cordons }: { nodes: RayNode[]; cordons: MachineCordon[] }) {
  const { ref, inViewport } = useInViewport<HTMLDivElement>();
  const choices = choicesOf(nodes);
  const [chosen, setChosen] = useState("");
  const [hours, setHours] = useState(DAY);
  const node = choices.find(({ value }) => value === chosen)?.value ?? choices[0]?.value ?? "";
  const { data, error } = useQuery({ ...machineUsageQuery(node, Number(hours)), enabled: inViewport && node !== "" });
  if (choices.length === 0) return null;
  return (
    <Panel
      title="Machines over time"
      note="all processes of the machine, one sample a minute"
      aside={
        <>
          <NativeSelect
            size="xs"
            aria-label="Machine"
            data={choices}
            value={node}
            onChange={(event) => setChosen(event.currentTarget.value)}
          />
          <NativeSelect
            size="xs"
            aria-label="Time range"
            data={RANGES}
            value={hours}
            onChange={(event) => setHours(event.currentTarget.value)}
          />
        </>
      }
      className="span-12"
    >
      <div ref={ref} className={css.usageBox}>
        {error && !data && <ErrorState title="Usage unavailable" error={error.message} />}
        {data && <MachineCharts history={data} cordons={cordons} />}
      </div>
    </Panel>
  );
}
