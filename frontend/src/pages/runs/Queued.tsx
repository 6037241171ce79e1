import { count } from "@/format";
import { unitOf } from "@/pages/run/queue/queued";
import type { ShownRun } from "@/pages/runs/columns";

/** The queue of a run with its unit, in lists of runs. */
export function Queued({ run }: { run: Pick<ShownRun, "kind" | "queued"> }) {
  if (run.queued === undefined || run.queued === null) return <>{count(run.queued)}</>;
  return (
    <>
      {count(run.queued)} <span className="faint">{unitOf(run.kind)}</span>
    </>
  );
}
