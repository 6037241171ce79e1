/** Convert a drag selection to a range. Pure. */

import type { ScoreBins } from "@/api/groups";

/** The numeric range from one bar to another, inclusive. */
export function spreadOf({ least, most, counts }: ScoreBins) {
  const width = (most - least) / counts.length;
  // The last bar ends at the maximum, regardless of rounding.
  return (first: number, last: number): [number, number] => [
    least + first * width,
    last >= counts.length - 1 ? most : least + (last + 1) * width,
  ];
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
