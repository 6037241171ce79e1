/** Merge metric names, configurations and returns of several runs, and group the runs. Pure. */

import type { MetricLine, RunDetail } from "@/api/types";
import { visible } from "@/format";
import { leadsOf, type RunKind } from "@/runs/metricOrder";
import type { Group } from "@/wall/drawing";
import { OWN } from "@/wall/panels";

/** The metric names of a run. */
export type NamesOfRun = { run: string; names: readonly string[] };

export type Shared = { name: string; runs: string[] };

/** All metric names: those of most runs first, built-in metrics last. */
export function unionOf(found: NamesOfRun[]): Shared[] {
  const union = new Map<string, string[]>();
  for (const { run, names } of found) for (const name of names) union.set(name, [...(union.get(name) ?? []), run]);
  const isBuiltin = (name: string) => Number(name.startsWith(OWN));
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
  const { off_policy_tolerance, lease_seconds, advantages, drop_zero_variance, overlong_sequences, on_second_registration } = run;
  const { unscored_sequences, least_group_size } = run;
  return {
    kind,
    preset,
    batch_size,
    max_token_len,
    num_steps,
    ends_at_num_steps,
    num_workers,
    max_staleness,
    max_age_seconds,
    off_policy_tolerance,
    lease_seconds,
    advantages,
    drop_zero_variance,
    overlong_sequences,
    unscored_sequences,
    least_group_size,
    on_second_registration,
  };
}

/** The metric by which runs are compared: the first return that most of them have. */
export function returnMetricOf(kinds: readonly RunKind[], union: readonly Shared[]): string | undefined {
  const owners = new Map(union.map(({ name, runs }) => [name, runs.length]));
  const leads = leadsOf(
    kinds,
    union.map(({ name }) => name),
  );
  const most = Math.max(...leads.map((name) => owners.get(name) ?? 0));
  return leads.find((name) => owners.get(name) === most);
}

/** `all`, `tag`, `project`, or `config.` and the path of a setting. */
export type Grouping = string;

type Run = Pick<RunDetail, "name" | "tags" | "project" | "config">;

const CONFIG = "config.";
const isScalar = (value: unknown): boolean => value === undefined || value === null || typeof value !== "object";

/** The groupings that these runs allow, each with its title. */
export function groupingsOf(runs: readonly Run[]): { value: Grouping; label: string }[] {
  const settings = configRows(runs.map(({ config }) => config as Record<string, unknown>))
    .filter(({ isSame, values }) => !isSame && values.every(isScalar))
    .map(({ path }) => ({ value: CONFIG + path, label: path }));
  return [
    { value: "all", label: "All runs" },
    ...(runs.some(({ tags }) => tags.length > 0) ? [{ value: "tag", label: "Tag" }] : []),
    ...(runs.some(({ project }) => project !== null) ? [{ value: "project", label: "Project" }] : []),
    ...settings,
  ];
}

function settingAt(config: unknown, path: string): unknown {
  return path
    .split(".")
    .reduce<unknown>((value, key) => (value && typeof value === "object" ? (value as Record<string, unknown>)[key] : undefined), config);
}

function labelsOf(run: Run, by: Grouping): string[] {
  if (by === "all") return ["All runs"];
  if (by === "tag") return run.tags.length > 0 ? run.tags : ["without a tag"];
  if (by === "project") return [run.project ?? "without a project"];
  const path = by.slice(CONFIG.length);
  const value = settingAt(run.config, path);
  return [visible(value === undefined ? `${path} not set` : `${path} = ${JSON.stringify(value)}`)];
}

/** The groups of runs in the order of their first runs; a run with several tags is in several groups. */
export function groupsOf(runs: readonly Run[], by: Grouping): Group[] {
  const groups = new Map<string, string[]>();
  for (const run of runs) for (const label of labelsOf(run, by)) groups.set(label, [...(groups.get(label) ?? []), run.name]);
  return [...groups].map(([label, names]) => ({ label, runs: names }));
}
