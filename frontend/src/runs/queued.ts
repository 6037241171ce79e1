/** Queue length in the unit of batches and thresholds. Pure. */

import type { LedgerPart, QueuePart, RunDetail } from "@/api/types";
import { number, unitFor } from "@/format";

/** The unit of a run's batches, thresholds and queue. */
export function unitOf(kind: RunDetail["kind"]): "fragments" | "sequences" {
  return kind === "fleet" ? "fragments" : "sequences";
}

/** Queue depth in the unit of its threshold: the count in the ledger of the same page. */
export function queuedFigure(
  { kind }: Pick<RunDetail, "kind">,
  queue: QueuePart | undefined,
  ledger: LedgerPart | undefined,
): { value: number | undefined; unit: string } {
  const unit = unitOf(kind);
  const value = ledger?.[unit].queued;
  if (!queue || queue.threshold <= 0) return { value, unit: unitFor(value, unit) };
  return { value, unit: `${unitFor(value, unit)}, threshold ${number(queue.threshold)}` };
}
