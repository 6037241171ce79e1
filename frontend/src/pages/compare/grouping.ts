/** Group runs, and summarize the lines of each group as mean and spread. Pure. */

import type { RunDetail } from "@/api/types";
import { type Column, interpolated } from "@/charts/columns";
import { lineStyleAt } from "@/charts/lineStyles";
import { smoothed } from "@/charts/lines";
import type { Line } from "@/charts/model";
import { type MeanAndSpread, meanAndSpread, type Spread } from "@/charts/spread";
import { visible } from "@/format";
import { configRows } from "./comparing";

/** `all`, `tag`, `project`, or `config.` and the path of a setting. */
export type Grouping = string;
export type Group = { label: string; runs: string[] };

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

export type RunColumn = { run: string; values: Column };

/** For each group a mean, above the two edges of its spread; the three share a legend entry. */
export function groupLines(
  groups: readonly Group[],
  x: readonly number[],
  columns: readonly RunColumn[],
  { spread, smooth }: { spread: Spread; smooth: number },
): Line[] {
  const byRun = new Map(columns.map(({ run, values }) => [run, interpolated(x, values)]));
  return groups.flatMap(({ label, runs }, place): Line[] => {
    const own = runs.flatMap((run) => [byRun.get(run) ?? []]);
    const at = x.map((_, i) =>
      meanAndSpread(
        own.flatMap((values) => values[i] ?? []),
        spread,
      ),
    );
    const column = (of: (one: MeanAndSpread) => number | null) =>
      smoothed(
        at.map((one) => one && of(one)),
        smooth,
      );
    const style = lineStyleAt(place);
    const edge = { entry: label, role: style.role, thin: true };
    return [
      { ...edge, label: `${label}, low`, values: column(({ low }) => low) },
      { ...edge, label: `${label}, high`, values: column(({ high }) => high), isFilled: true },
      { ...style, entry: label, label: `${label}, mean`, values: column(({ mean }) => mean) },
    ];
  });
}
