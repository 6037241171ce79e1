/** How the workers of a fleet are shown: as rows with figures, or as tiles. Pure. */

export type FleetView = "table" | "grid";

/** From this many workers on rows say less than tiles do. */
const TILES_FROM = 200;

/** The view that the address names; without one, what suits the size of the fleet. */
export function shownView(asked: FleetView | undefined, workers: number): FleetView {
  return asked ?? (workers >= TILES_FROM ? "grid" : "table");
}

export type FleetSearch = { worker?: number; view?: FleetView };

export function viewOf(value: unknown): FleetView | undefined {
  return value === "grid" || value === "table" ? value : undefined;
}
