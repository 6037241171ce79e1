/** Place percentiles on a scale shared by several rows. Pure. */

import { shareOf } from "@/charts/scale";

/** Values by percentile, as in the API: "5", "25", "50", "75" and "95". */
type Percentiles = Record<string, number>;
export type Spread = { p5: number; p25: number; p50: number; p75: number; p95: number };
export type Range = { low: number; high: number };

/** The five percentiles; null if no episode finished normally. */
export function spreadOf(percentiles: Percentiles): Spread | null {
  const [p5, p25, p50, p75, p95] = ["5", "25", "50", "75", "95"].map((cut) => percentiles[cut]);
  if (p5 === undefined || p25 === undefined || p50 === undefined || p75 === undefined || p95 === undefined) return null;
  return { p5, p25, p50, p75, p95 };
}

/** The smallest range that covers all distributions; null without any. */
export function rangeOf(spreads: readonly (Spread | null)[]): Range | null {
  const there = spreads.filter((spread) => spread !== null);
  if (there.length === 0) return null;
  return { low: Math.min(...there.map(({ p5 }) => p5)), high: Math.max(...there.map(({ p95 }) => p95)) };
}

/** The position of a value in a range, in percent; the middle of a range of zero width. */
export function place(value: number, { low, high }: Range): number {
  return 100 * shareOf(value, low, high);
}

type Named = { environment: string; mode: "train" | "eval" };

/** Sort by environment name, training before evaluation. */
export function inOrder<T extends Named>(tasks: readonly T[]): T[] {
  const rank = { train: 0, eval: 1 };
  return [...tasks].sort((a, b) => a.environment.localeCompare(b.environment) || rank[a.mode] - rank[b.mode]);
}

export type Outcomes = { terminated: number; truncated: number; aborted: number };
export type Outcome = { name: keyof Outcomes; count: number; part: number };

/** Outcomes of episodes, each with its share, 0 to 1. */
export function outcomesOf(outcomes: Outcomes): Outcome[] {
  const all = outcomes.terminated + outcomes.truncated + outcomes.aborted;
  return (["terminated", "truncated", "aborted"] as const).map((name) => ({
    name,
    count: outcomes[name],
    part: all > 0 ? outcomes[name] / all : 0,
  }));
}
