/** Columns of charts. Pure. */

/** Null is a gap; undefined is a missing value that the line spans. */
export type Column = (number | null | undefined)[];

/** A column with values between its samples, on straight lines; none across a gap or beyond its ends. */
export function interpolated(x: readonly number[], values: Column): (number | null)[] {
  const found: (number | null)[] = values.map((value) => value ?? null);
  let before: number | null = null;
  values.forEach((value, i) => {
    if (value === undefined) return;
    if (value !== null && before !== null) {
      const [from, low] = [x[before] ?? 0, values[before] as number];
      for (let at = before + 1; at < i; at += 1) found[at] = low + ((value - low) * ((x[at] ?? 0) - from)) / ((x[i] ?? 0) - from);
    }
    before = value === null ? null : i;
  });
  return found;
}
