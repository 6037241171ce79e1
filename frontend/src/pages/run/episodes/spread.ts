/** Place the percentiles of a measure on a line that several rows share. Pure. */

/** Values by percentile, as the API sends them: "5", "25", "50", "75" and "95". */
type Percentiles = Record<string, number>;
export type Spread = { p5: number; p25: number; p50: number; p75: number; p95: number };
export type Range = { low: number; high: number };

/** The five percentiles; null where no episode came to an end of its own. */
export function spreadOf(percentiles: Percentiles): Spread | null {
  const [p5, p25, p50, p75, p95] = ["5", "25", "50", "75", "95"].map((cut) => percentiles[cut]);
  if (p5 === undefined || p25 === undefined || p50 === undefined || p75 === undefined || p95 === undefined) return null;
  return { p5, p25, p50, p75, p95 };
}

/** The least range that holds all spreads, so that rows can be compared; null without any. */
export function rangeOf(spreads: readonly (Spread | null)[]): Range | null {
  const there = spreads.filter((spread) => spread !== null);
  if (there.length === 0) return null;
  return { low: Math.min(...there.map(({ p5 }) => p5)), high: Math.max(...there.map(({ p95 }) => p95)) };
}

/** Where a value lies in a range, in percent; in the middle of one that is a single value. */
export function place(value: number, { low, high }: Range): number {
  return high > low ? (100 * (value - low)) / (high - low) : 50;
}

type Named = { environment: string; mode: "train" | "eval" };

/** Environments by name, and of each one training before evaluation. */
export function inOrder<T extends Named>(tasks: readonly T[]): T[] {
  const rank = { train: 0, eval: 1 };
  return [...tasks].sort((a, b) => a.environment.localeCompare(b.environment) || rank[a.mode] - rank[b.mode]);
}

export type Outcomes = { terminated: number; truncated: number; aborted: number };
export type Outcome = { name: keyof Outcomes; count: number; part: number };

/** How episodes ended, each with its part of all, 0 to 1. */
export function outcomesOf(outcomes: Outcomes): Outcome[] {
  const all = outcomes.terminated + outcomes.truncated + outcomes.aborted;
  return (["terminated", "truncated", "aborted"] as const).map((name) => ({
    name,
    count: outcomes[name],
    part: all > 0 ? outcomes[name] / all : 0,
  }));
}
