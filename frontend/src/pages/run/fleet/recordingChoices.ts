/** Choices of what to record: any worker or one of them, and any slot or one of its slots. Pure. */

import type { WorkerRow } from "@/api/types";

export type Choice = { value: string; label: string };

/** The number of a choice; null for any. */
export function choice(value: string): number | null {
  return value === "any" ? null : Number(value);
}

/** The running workers as choices. */
export function workerChoices(workers: readonly Pick<WorkerRow, "index" | "state">[]): Choice[] {
  const there = workers.filter(({ state }) => state !== "stopped");
  return [{ value: "any", label: "any worker" }, ...there.map(({ index }) => ({ value: String(index), label: `worker ${index}` }))];
}

/** The slots of a worker as choices; only "any" if no worker is chosen. */
export function slotChoices(workers: readonly Pick<WorkerRow, "index" | "slots">[], worker: number | null): Choice[] {
  const slots = workers.find(({ index }) => index === worker)?.slots ?? [];
  return [{ value: "any", label: "any slot" }, ...slots.map(({ slot }) => ({ value: String(slot), label: `slot ${slot}` }))];
}
