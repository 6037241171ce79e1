/** Views of a fleet: rows with figures, or tiles. Pure. */

import { processOf } from "@/pages/run/logs/logAddress";

export type FleetView = "table" | "grid";

/** Number of workers from which tiles are the default. */
const TILES_FROM = 200;

/** The view from the URL; defaults by the size of the fleet. */
export function shownView(asked: FleetView | undefined, workers: number): FleetView {
  return asked ?? (workers >= TILES_FROM ? "grid" : "table");
}

export type FleetSearch = {
  /** The expanded worker. */
  worker?: number;
  view?: FleetView;
  /** The open log: `manager`, `2`, `2.1`. */
  log?: string;
};

export function logOf(value: unknown): string | undefined {
  const text = typeof value === "number" ? String(value) : value;
  return typeof text === "string" && processOf(text) ? text : undefined;
}

export function viewOf(value: unknown): FleetView | undefined {
  return value === "grid" || value === "table" ? value : undefined;
}
