/** What the comparison keeps in its address: everything that one chose. Pure. */

import type { MetricAxis, Span } from "@/api/metrics";
import { namesOf } from "@/charts/names";

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
};

export const RUNS_AT_MOST = 20;
export const METRICS_AT_MOST = 24;
const AXES: readonly unknown[] = ["step", "time", "elapsed", "amount"];

const words = (value: unknown): string | undefined =>
  typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) || undefined : undefined;
const place = (value: unknown): number | undefined => (typeof value === "number" && Number.isFinite(value) ? value : undefined);

/** Read an address; what makes no sense is left out. */
export function compareSearch(search: Record<string, unknown>): CompareSearch {
  const [from, to, smooth] = [place(search.from), place(search.to), place(search.smooth)];
  const isSpan = from !== undefined && to !== undefined && from < to;
  return {
    runs: words(search.runs),
    m: words(search.m),
    x: AXES.includes(search.x) && search.x !== "step" ? (search.x as MetricAxis) : undefined,
    from: isSpan ? from : undefined,
    to: isSpan ? to : undefined,
    smooth: smooth !== undefined && smooth > 0 && smooth < 1 ? smooth : undefined,
    log: words(search.log),
    hide: words(search.hide),
    config: search.config === "all" ? "all" : undefined,
  };
}

/** The part that is looked at; places before the beginning are there only since the run began. */
export function spanOf({ from, to, x }: CompareSearch): Span | undefined {
  if (from === undefined || to === undefined) return undefined;
  return x === "elapsed" ? { from, to } : { from: Math.max(0, from), to: Math.max(0, to) };
}

export function runsOf({ runs }: CompareSearch): string[] {
  return namesOf(runs).slice(0, RUNS_AT_MOST);
}
