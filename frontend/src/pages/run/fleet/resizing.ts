/** Words about the size of a fleet. */

import type { WorkerRow } from "@/api/types";
import type { Arrival } from "@/pages/run/verbs";

export const MOST_WORKERS = 4096;

const workers = (count: number) => `${count} ${count === 1 ? "worker" : "workers"}`;

/** Say what a change from `now` to `wanted` workers does. */
export function whatHappens(now: number, wanted: number): string {
  if (wanted > now) return `Starts ${workers(wanted - now)}.`;
  if (wanted < now) return `Lets ${workers(now - wanted)} send what they have, then ends them.`;
  return "At least 1. The run's configuration stays as it is.";
}

/** The workers that are part of the fleet: rows of those that left stay behind as `stopped`. */
export function present(rows: readonly Pick<WorkerRow, "state">[]): number {
  return rows.filter(({ state }) => state !== "stopped").length;
}

/** Say whether the fleet has become as large as was asked; null before it has any workers. */
export function sizeArrival(
  wanted: number,
  rows: readonly (Pick<WorkerRow, "state"> & Partial<Pick<WorkerRow, "cordon">>)[],
): Arrival | null {
  if (rows.length === 0) return null;
  // A seat that is kept free is a seat.
  const there = present(rows) + rows.filter(({ cordon }) => cordon === "out").length;
  if (there === wanted) return { state: "applied", text: "applied" };
  return { state: "requested", text: `requested: ${workers(wanted)}; there ${there === 1 ? "is" : "are"} ${there}` };
}
