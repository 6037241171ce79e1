/** Merge metric names and configurations of several runs. Pure. */

import type { MetricLine, RunDetail } from "@/api/types";
import { leadsOf, type RunKind } from "@/runs/metricOrder";

/** The metric names of a run. */
export type NamesOfRun = { run: string; names: readonly string[] };

export type Shared = { name: string; runs: string[] };

const BUILTIN_PREFIX = "rolldeck/";

/** All metric names: those of most runs first, built-in metrics last. */
export function unionOf(found: NamesOfRun[]): Shared[] {
  const union = new Map<string, string[]>();
  for (const { run, names } of found) for (const name of names) union.set(name, [...(union.get(name) ?? []), run]);
  const isBuiltin = (name: string) => Number(name.startsWith(BUILTIN_PREFIX));
  return [...union]
    .map(([name, runs]) => ({ name, runs }))
    .sort((a, b) => isBuiltin(a.name) - isBuiltin(b.name) || b.runs.length - a.runs.length || a.name.localeCompare(b.name));
}

/** The metrics that a comparison shows by default: returns and evaluations, then those of most runs. */
export function defaultMetrics(kinds: readonly RunKind[], union: readonly Shared[], atMost: number): string[] {
  const names = union.map(({ name }) => name);
  const leads = leadsOf(kinds, names);
  return [...new Set([...leads, ...names])].slice(0, atMost);
}

export type Figures = { last: number | null; least: number | null; greatest: number | null };

/** Aggregates of a line in the visible range; null for a run without samples in it. */
export function figuresOf(line: MetricLine | undefined): Figures | null {
  if (!line || line.samples === 0) return null;
  const finite = (values: (number | null)[]) => values.filter((value) => value !== null);
  const low = finite(line.is_exact ? line.last : line.min);
  const high = finite(line.is_exact ? line.last : line.max);
  // Not with spread: a line has thousands of points.
  const least = low.reduce<number | null>((best, value) => (best === null || value < best ? value : best), null);
  const greatest = high.reduce<number | null>((best, value) => (best === null || value > best ? value : best), null);
  return { last: finite(line.last).at(-1) ?? null, least, greatest };
}

export type Staleness = { mean: number; most: number };

/** Mean and maximum staleness of a batch, from counts by versions behind. */
export function stalenessOf(counts: Record<string, number>): Staleness | null {
  const rows = Object.entries(counts)
    .map(([behind, items]) => [Number(behind), items] as const)
    .filter(([behind]) => Number.isFinite(behind));
  const items = rows.reduce((sum, [, each]) => sum + each, 0);
  if (items === 0) return null;
  const mean = rows.reduce((sum, [behind, each]) => sum + behind * each, 0) / items;
  return { mean, most: Math.max(...rows.map(([behind]) => behind)) };
}

type Config = Record<string, unknown>;
export type ConfigRow = { path: string; values: unknown[]; isSame: boolean };

const isConfig = (value: unknown): value is Config => typeof value === "object" && value !== null && !Array.isArray(value);

function leavesOf(config: Config, above = ""): [string, unknown][] {
  return Object.entries(config).flatMap(([key, value]): [string, unknown][] => {
    const path = above ? `${above}.${key}` : key;
    return isConfig(value) && Object.keys(value).length > 0 ? leavesOf(value, path) : [[path, value]];
  });
}

/** One row for each path in any configuration, with a value per run; undefined if missing. */
export function configRows(configs: Config[]): ConfigRow[] {
  const leaves = configs.map((config) => new Map(leavesOf(config)));
  const paths = [...new Set(leaves.flatMap((each) => [...each.keys()]))];
  return paths.map((path) => {
    const values = leaves.map((each) => each.get(path));
    return { path, values, isSame: new Set(values.map((value) => JSON.stringify(value))).size === 1 };
  });
}

/** The current values of settings that can be changed during a run. */
export function settingsOf(run: RunDetail): Config {
  const { kind, preset, batch_size, max_token_len, num_steps, ends_at_num_steps, num_workers, max_staleness, max_age_seconds } = run;
  const { off_policy_tolerance, lease_seconds, advantages, drop_zero_variance, overlong_sequences } = run;
  const { on_second_registration } = run;
  return {
    ...{ kind, preset, batch_size, max_token_len, num_steps, ends_at_num_steps, num_workers, max_staleness, max_age_seconds },
    ...{
      off_policy_tolerance,
      lease_seconds,
      advantages,
      drop_zero_variance,
      overlong_sequences,
      on_second_registration,
    },
  };
}
