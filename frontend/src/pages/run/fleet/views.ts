/** Views of a fleet: rows with figures, or tiles. Pure. */

export type FleetView = "table" | "grid";

/** Number of workers from which tiles are the default. */
const TILES_FROM = 200;

/** The view from the URL; defaults by the size of the fleet. */
export function shownView(asked: FleetView | undefined, workers: number): FleetView {
  return asked ?? (workers >= TILES_FROM ? "grid" : "table");
}

export type FleetSearch = { worker?: number; view?: FleetView };

export function viewOf(value: unknown): FleetView | undefined {
  return value === "grid" || value === "table" ? value : undefined;
}
