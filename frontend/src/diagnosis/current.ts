/** Select the diagnosis to show for a run. Pure. */

import type { Diagnosis } from "@/api/queue";
import type { RunSummary } from "@/api/types";

/** The diagnosis, unless it was made under a different run status, for example before a pause. */
export function currentDiagnosis(diagnosis: Diagnosis | undefined, run: Pick<RunSummary, "status">): Diagnosis | undefined {
  return diagnosis?.run_status === run.status ? diagnosis : undefined;
}
