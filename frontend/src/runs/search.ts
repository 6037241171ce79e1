/** URL parameters of lists of runs. Pure. */

import { isNamed, type NamedColumn, SORTS, type Sort } from "@/api/runs";

/** What runs are grouped by: their project, each of their tags, or a configuration value. */
export type GroupBy = "project" | "tag" | NamedColumn;
export type RunsSearch = { q?: string; sort?: Sort; cols?: string; group?: GroupBy };

const text = (value: unknown): string | undefined => (typeof value === "string" || typeof value === "number" ? String(value) : undefined);

function isSort(value: unknown): value is Sort {
  if (typeof value !== "string") return false;
  const name = value.replace(/^-/, "");
  return isNamed(name) || SORTS.some((known) => known === name);
}

const isGroup = (value: unknown): value is GroupBy =>
  value === "project" || value === "tag" || (typeof value === "string" && value.startsWith("config.") && isNamed(value));

/** Parse search parameters; invalid values are dropped. */
export function runsSearch(search: Record<string, unknown>): RunsSearch {
  return {
    q: text(search.q),
    sort: isSort(search.sort) ? search.sort : undefined,
    cols: text(search.cols),
    group: isGroup(search.group) ? search.group : undefined,
  };
}
