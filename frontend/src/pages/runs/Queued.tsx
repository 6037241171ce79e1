import { count } from "@/format";
import { unitOf } from "@/pages/run/queue/queued";
import type { ShownRun } from "@/pages/runs/rows";

/** The queue length of a run with its unit, for lists; in narrow columns the unit is below the number. */
export function Queued({ run, isNarrow = false }: { run: Pick<ShownRun, "kind" | "queued">; isNarrow?: boolean }) {
  if (!run.queued) return <>{count(run.queued)}</>;
  const unit = run.queued === 1 ? unitOf(run.kind).slice(0, -1) : unitOf(run.kind);
  return (
    <>
      {count(run.queued)} {isNarrow ? <div className="faint small">{unit}</div> : <span className="faint">{unit}</span>}
    </>
  );
}
