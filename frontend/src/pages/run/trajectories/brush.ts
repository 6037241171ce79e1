/** Turn what was brushed over into a range. Pure. */

import type { ScoreBins } from "@/api/groups";

/** Both ends of the numbers from one bar to another, both included. */
export function spreadOf({ least, most, counts }: ScoreBins) {
  const width = (most - least) / counts.length;
  // The last bar ends where the numbers do, whatever rounding made of its width.
  return (first: number, last: number): [number, number] => [
    least + first * width,
    last >= counts.length - 1 ? most : least + (last + 1) * width,
  ];
}

/** The bar under a place, the first or the last one for places beside them. */
export function barAt(box: { left: number; width: number }, x: number, bars: number): number {
  const place = Math.floor((bars * (x - box.left)) / Math.max(1, box.width));
  return Math.min(bars - 1, Math.max(0, place));
}

/** A bound as it stands in the address; rounded away from nothing that the bars show. */
export function rounded(value: number): number {
  return Number(value.toPrecision(6));
}
