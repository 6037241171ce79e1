import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { linesQuery } from "@/api/metrics";
import type { RunDetail, WorkerRow } from "@/api/types";
import { type Ends, spanOf } from "@/charts/names";
import { isGpuLine, resourceNames, resourcePanels } from "@/pages/run/fleet/resources";
import { RunWall } from "@/pages/run/RunWall";
import { PRESET_POINTS } from "@/wall/presets";
import { UNZOOMED } from "@/wall/view";
import css from "./fleet.module.css";

/** CPU, memory and GPU of a fleet over time, with the events of its run. */
export function Resources({ run, workers }: { run: RunDetail; workers: WorkerRow[] }) {
  const [range, setRange] = useState<Ends>(UNZOOMED);
  const indices = workers.map(({ index }) => index).join();
  const names = useMemo(() => resourceNames(workers), [indices]);
  const view = { runs: [run.name], axis: "time" as const, span: spanOf(range), names, points: PRESET_POINTS };
  // Only the charts request the lines, and only while on screen.
  const { data } = useQuery({ ...linesQuery(view), enabled: false });
  const hasGpu = data?.some(isGpuLine) ?? false;
  const panels = useMemo(() => resourcePanels(workers, hasGpu), [indices, hasGpu]);
  return (
    <section className="span-12" aria-label="Resources">
      <div className={css.resources}>
        <h2>Resources</h2>
        <span className="small soft">
          Sampled every 10 s. Dotted lines: changes of the run, launches and ended workers; up to 24 weight versions in view.
        </span>
        <span className="spacer" />
        {range.from !== undefined && (
          <Button size="xs" variant="default" onClick={() => setRange(UNZOOMED)}>
            Reset zoom
          </Button>
        )}
      </div>
      <RunWall panels={panels} together={names} range={range} onRange={setRange} className="charts" events="fleet" />
    </section>
  );
}
