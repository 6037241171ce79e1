/** What may be filmed: any worker or one of them, and of that one any slot or one of them. Pure. */

import type { WorkerRow } from "@/api/types";

export type Choice = { value: string; label: string };

/** The number behind a choice; null for any. */
export function choice(value: string): number | null {
  return value === "any" ? null : Number(value);
}

/** The workers that are there to film. */
export function workerChoices(workers: readonly Pick<WorkerRow, "index" | "state">[]): Choice[] {
  const there = workers.filter(({ state }) => state !== "stopped");
  return [{ value: "any", label: "any worker" }, ...there.map(({ index }) => ({ value: String(index), label: `worker ${index}` }))];
}

/** The slots of a worker; none to choose from while any worker will do. */
export function slotChoices(workers: readonly Pick<WorkerRow, "index" | "slots">[], worker: number | null): Choice[] {
  const slots = workers.find(({ index }) => index === worker)?.slots ?? [];
  return [{ value: "any", label: "any slot" }, ...slots.map(({ slot }) => ({ value: String(slot), label: `slot ${slot}` }))];
}
