/** URL parameters of the comparison. Pure. */

import type { MetricAxis } from "@/api/types";
import { namesOf } from "@/charts/names";
import { axisOf, endsOn } from "@/charts/spans";
import { RUNS_AT_MOST } from "@/runs/search";

export type CompareSearch = {
  /** Names of runs, comma-separated; their order selects their styles. */
  runs?: string;
  /** Names of metrics; defaults to a few that most runs have. */
  m?: string;
  x?: MetricAxis;
  from?: number;
  to?: number;
  /** Weight of the moving average; defaults to none. */
  smooth?: number;
  /** Metrics drawn on a log axis. */
  log?: string;
  /** Hidden runs. */
  hide?: string;
  /** What runs are grouped by: `all`, `tag`, `project`, or `config.` and the path of a setting. */
  by?: string;
  /** Spread of a group; defaults to the standard deviation. */
  spread?: "range";
  /** Whether to include settings that all runs share. */
  config?: "all";
  /** Digest of the prompt whose samples are compared. */
  prompt?: string;
};

export const METRICS_AT_MOST = 24;
const GROUPING = /^(all|tag|project|config\..{1,200})$/;

const words = (value: unknown): string | undefined =>
  typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) || undefined : undefined;

/** Parse search parameters; invalid values are dropped. */
export function compareSearch(search: Record<string, unknown>): CompareSearch {
  const x = axisOf(search.x);
  const { smooth } = search;
  return {
    runs: words(search.runs),
    m: words(search.m),
    x,
    ...endsOn(x, search),
    smooth: typeof smooth === "number" && smooth > 0 && smooth < 1 ? smooth : undefined,
    log: words(search.log),
    hide: words(search.hide),
    by: typeof search.by === "string" && GROUPING.test(search.by) ? search.by : undefined,
    spread: search.spread === "range" ? "range" : undefined,
    config: search.config === "all" ? "all" : undefined,
    prompt: typeof search.prompt === "string" && /^[0-9a-f]{32}$/.test(search.prompt) ? search.prompt : undefined,
  };
}

export function runsOf({ runs }: CompareSearch): string[] {
  return namesOf(runs).slice(0, RUNS_AT_MOST);
}
