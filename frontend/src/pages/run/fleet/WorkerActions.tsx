import { Button, Tooltip } from "@mantine/core";
import { useState } from "react";
import { useMayOperate } from "@/api/session";
import type { RunDetail, WorkerRow } from "@/api/types";
import { onDemand } from "@/components/onDemand";
import { WorkerCordon } from "@/pages/run/fleet/WorkerCordon";
import { WorkerRestart } from "@/pages/run/fleet/WorkerRestart";
import { isOver } from "@/theme/chips";
import css from "./fleet.module.css";

const StacksDrawer = onDemand(() => import("@/pages/run/fleet/StacksDrawer"), "default");

/** Actions on one worker. */
export function WorkerActions({ run, worker }: { run: RunDetail; worker: WorkerRow }) {
  const mayOperate = useMayOperate();
  const [looks, setLooks] = useState(false);
  if (isOver(run.status)) return null;
  return (
    <div className={css.actions}>
      {!worker.cordon && <WorkerRestart run={run.name} worker={worker} />}
      <WorkerCordon run={run.name} worker={worker} />
      {worker.state !== "stopped" && (
        <Tooltip
          label={
            mayOperate
              ? "Show the current stack of each Python thread; the worker continues."
              : "View captured stacks. Capturing requires the operator role."
          }
        >
          <Button size="compact-xs" variant="default" onClick={() => setLooks(true)}>
            Stacks of worker {worker.index}
          </Button>
        </Tooltip>
      )}
      {looks && <StacksDrawer run={run.name} worker={worker} onClose={() => setLooks(false)} />}
    </div>
  );
}
