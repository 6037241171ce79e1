/** Mean and spread of values. Pure. */

export type Spread = "deviation" | "range";
export type MeanAndSpread = {
  mean: number /** Standard deviation of a sample (n − 1). */;
  deviation: number | null;
  low: number | null;
  high: number | null;
};

/** Mean, standard deviation, and the ends of the spread; no spread of a single value. */
export function meanAndSpread(values: readonly number[], spread: Spread = "deviation"): MeanAndSpread | null {
  const count = values.length;
  if (count === 0) return null;
  // Divided first, so that sums of large values stay finite.
  const mean = values.reduce((sum, value) => sum + value / count, 0);
  if (count === 1) return { mean, deviation: null, low: null, high: null };
  const deviation = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2 / (count - 1), 0));
  if (spread === "range") return { mean, deviation, low: Math.min(...values), high: Math.max(...values) };
  return { mean, deviation, low: mean - deviation, high: mean + deviation };
}
