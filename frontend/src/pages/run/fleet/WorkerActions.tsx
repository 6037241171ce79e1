import type { RunDetail, WorkerRow } from "@/api/types";
import { WorkerCordon } from "@/pages/run/fleet/WorkerCordon";
import { WorkerRestart } from "@/pages/run/fleet/WorkerRestart";
import { isOver } from "@/theme/chips";
import css from "./fleet.module.css";

/** Actions on one worker. */
export function WorkerActions({ run, worker }: { run: RunDetail; worker: WorkerRow }) {
  if (isOver(run.status)) return null;
  return (
    <div className={css.actions}>
      {!worker.cordon && <WorkerRestart run={run.name} worker={worker} />}
      <WorkerCordon run={run.name} worker={worker} />
    </div>
  );
}
