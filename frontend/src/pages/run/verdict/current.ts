/** Select the diagnosis to show for a run. Pure. */

import type { Verdict } from "@/api/pipeline";
import type { RunSummary } from "@/api/types";

/** The diagnosis, unless it was made under a different run status, for example before a pause. */
export function currentVerdict(verdict: Verdict | undefined, run: Pick<RunSummary, "status">): Verdict | undefined {
  return verdict?.run_status === run.status ? verdict : undefined;
}
