/** Convert a drag selection to a range. Pure. */

import { valueAt } from "@/charts/scale";
import type { ScoreBins } from "@/pages/run/episodes/ranges";

/** The numeric range from one bar to another, inclusive. */
export function spreadOf({ least, most, counts }: ScoreBins) {
  const edge = (bar: number) => valueAt(bar / counts.length, least, most);
  // The last bar ends at the maximum, regardless of rounding.
  return (first: number, last: number): [number, number] => [edge(first), last >= counts.length - 1 ? most : edge(last + 1)];
}

/** The bar at a position; positions outside map to the first or last bar. */
export function barAt(box: { left: number; width: number }, x: number, bars: number): number {
  const place = Math.floor((bars * (x - box.left)) / Math.max(1, box.width));
  return Math.min(bars - 1, Math.max(0, place));
}

/** A bound for the URL, rounded without excluding visible bars. */
export function rounded(value: number): number {
  return Number(value.toPrecision(6));
}
