/** Groups of runs with the same tag, project or configuration value. Pure. */

import type { RunDetail } from "@/api/types";
import { visible } from "@/format";
import type { Group } from "@/wall/drawing";
import { configRows } from "./comparing";

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
