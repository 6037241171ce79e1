import { count } from "@/format";
import { unitOf } from "@/pages/run/queue/queued";
import type { ShownRun } from "@/pages/runs/columns";

/** The queue of a run with its unit, in lists of runs; in a narrow column the unit is below the number. */
export function Queued({ run, isNarrow = false }: { run: Pick<ShownRun, "kind" | "queued">; isNarrow?: boolean }) {
  if (!run.queued) return <>{count(run.queued)}</>;
  const unit = unitOf(run.kind);
  return (
    <>
      {count(run.queued)} {isNarrow ? <div className="faint small">{unit}</div> : <span className="faint">{unit}</span>}
    </>
  );
}
