/** Texts about the size of a fleet. */

import type { WorkerRow } from "@/api/types";
import { counted } from "@/format";

export type Arrival = { state: "applied" | "requested"; text: string };

export const MOST_WORKERS = 4096;

const workers = (count: number) => counted(count, "worker");

/** Describe a change from `now` to `wanted` workers. */
export function whatHappens(now: number, wanted: number): string {
  if (wanted > now) return `Starts ${workers(wanted - now)}.`;
  if (wanted < now) return `${workers(now - wanted)} will send pending data and exit.`;
  return "At least 1. The run's configuration is not changed.";
}

/** The workers that are part of the fleet; rows of former workers remain as `stopped`. */
export function present(rows: readonly Pick<WorkerRow, "state">[]): number {
  return rows.filter(({ state }) => state !== "stopped").length;
}

/** Progress of a resize; null before there are any workers. */
export function sizeArrival(
  wanted: number,
  rows: readonly (Pick<WorkerRow, "state"> & Partial<Pick<WorkerRow, "cordon">>)[],
): Arrival | null {
  if (rows.length === 0) return null;
  // A cordoned place counts as part of the fleet.
  const there = present(rows) + rows.filter(({ cordon }) => cordon === "out").length;
  if (there === wanted) return { state: "applied", text: "applied" };
  return { state: "requested", text: `requested: ${workers(wanted)}; ${there} present` };
}
