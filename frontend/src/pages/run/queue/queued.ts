/** The length of the queue in one unit: the one that batches and thresholds count. Pure. */

import type { LedgerPart, QueuePart, RunDetail } from "@/api/types";
import { number } from "@/format";

/** What a run's batches, thresholds and queue are counted in. */
export function unitOf(kind: RunDetail["kind"]): "fragments" | "sequences" {
  return kind === "fleet" ? "fragments" : "sequences";
}

/** The queue depth in the unit of its threshold. For a fleet, the count of the ledger on the same page. */
export function queuedFigure(
  { kind }: Pick<RunDetail, "kind">,
  queue: QueuePart | undefined,
  ledger: LedgerPart | undefined,
): { value: number | undefined; unit: string } {
  const unit = unitOf(kind);
  const value = kind === "fleet" ? (ledger?.fragments.queued ?? queue?.queued) : queue?.queued_sequences;
  if (!queue || queue.threshold <= 0) return { value, unit };
  return { value, unit: `${unit}, threshold ${number(queue.threshold)}` };
}
