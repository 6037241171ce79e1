/** What the comparison keeps in its address: everything that one chose. Pure. */

import type { MetricAxis } from "@/api/metrics";
import { namesOf } from "@/charts/names";
import { axisOf, endsOn } from "@/charts/spans";

export type CompareSearch = {
  /** Names of runs, comma-separated; their order gives them their looks. */
  runs?: string;
  /** Names of metrics; absent: a few that most runs have. */
  m?: string;
  x?: MetricAxis;
  from?: number;
  to?: number;
  /** Weight of the moving average; absent: none. */
  smooth?: number;
  /** Metrics that are drawn over a log axis. */
  log?: string;
  /** Runs that are not drawn. */
  hide?: string;
  /** Whether rows of the configuration are shown in which all agree. */
  config?: "all";
  /** Digest of the prompt whose samples stand beside each other. */
  prompt?: string;
  /** The kept comparison that this began with. */
  report?: number;
};

export const RUNS_AT_MOST = 20;
export const METRICS_AT_MOST = 24;

const words = (value: unknown): string | undefined =>
  typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) || undefined : undefined;

/** Read an address; what makes no sense is left out. */
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
    config: search.config === "all" ? "all" : undefined,
    report: typeof search.report === "number" && Number.isSafeInteger(search.report) && search.report > 0 ? search.report : undefined,
    prompt: typeof search.prompt === "string" && /^[0-9a-f]{32}$/.test(search.prompt) ? search.prompt : undefined,
  };
}

export function runsOf({ runs }: CompareSearch): string[] {
  return namesOf(runs).slice(0, RUNS_AT_MOST);
}
