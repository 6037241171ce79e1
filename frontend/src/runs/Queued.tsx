import { count } from "@/format";
import { unitOf } from "@/runs/queued";
import type { ShownRun } from "@/runs/rows";

/** The queue length of a run with its unit. */
export function Queued({ run }: { run: Pick<ShownRun, "kind" | "queued"> }) {
  if (!run.queued) return <>{count(run.queued)}</>;
  return (
    <>
      {count(run.queued)} <span className="faint">{run.queued === 1 ? unitOf(run.kind).slice(0, -1) : unitOf(run.kind)}</span>
    </>
  );
}
