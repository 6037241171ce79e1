/** Positions of values of any size on a scale. Pure. */

/** Where a value lies between two others, 0 to 1, also if their difference is no finite number. */
export function shareOf(value: number, low: number, high: number): number {
  if (!(high > low)) return 0.5;
  const share = (value / 2 - low / 2) / (high / 2 - low / 2);
  return Math.min(1, Math.max(0, share));
}

/** The value at a share of the way between two others. */
export function valueAt(share: number, low: number, high: number): number {
  return low * (1 - share) + high * share;
}
