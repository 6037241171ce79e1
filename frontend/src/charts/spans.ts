/** Parse a chart's axis and range from the URL. Pure. */

import type { Span } from "@/api/metrics";
import type { MetricAxis } from "@/api/types";

/** A position on an axis; only elapsed time allows values below 0 (before the start). */
export function placeOn(axis: MetricAxis | undefined, value: unknown): number | undefined {
  const isPlace = typeof value === "number" && Number.isFinite(value) && (axis === "elapsed" || value >= 0);
  return isPlace ? value : undefined;
}

export type Ends = { from?: number; to?: number };

/** Both ends of the range, or neither. */
export function endsOn(axis: MetricAxis | undefined, search: Record<string, unknown>): Ends {
  const [from, to] = [placeOn(axis, search.from), placeOn(axis, search.to)];
  return from !== undefined && to !== undefined && from < to ? { from, to } : { from: undefined, to: undefined };
}

export function spanOf({ from, to }: Ends): Span | undefined {
  return from === undefined || to === undefined ? undefined : { from, to };
}
