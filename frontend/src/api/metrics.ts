/** API queries for metric names and series. */

import { focusManager, keepPreviousData, queryOptions, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { api, askRows, at, body } from "@/api/client";
import type { MetricAxis, MetricLine } from "@/api/types";
import { usePartChangeFeed } from "@/live/live";

/** The built-in return of training episodes, or mean score of groups. */
export const BUILTIN_RETURN = "rolldeck/reward/mean";

/** First and last x value of the view. */
export type Span = { from: number; to: number };

const MEASURED: ReadonlySet<string> = new Set(["starting", "running", "paused", "draining"]);
/** Whether a run in this state may still record metrics. */
export const mayMeasure = (status: string): boolean => MEASURED.has(status);

export type LinesView = {
  runs: readonly string[];
  names: readonly string[];
  axis: MetricAxis;
  span?: Span;
  /** Maximum number of points of a line. */
  points: number;
};

/** Shown lines are refetched when a run announces metrics: until then they are fresh. */
const METRICS_FRESH_MS = 60_000;

/** One line for each run and name. */
export function linesQuery({ runs, names, axis, span, points }: LinesView) {
  const query = { runs: runs.join(","), names: names.join(","), x: axis, points, ...span };
  return queryOptions({
    queryKey: ["metric-lines", query],
    queryFn: async (): Promise<MetricLine[]> => (await body(api.GET("/api/v1/metrics/lines", { params: { query } }))).lines,
    enabled: runs.length > 0 && names.length > 0,
    staleTime: METRICS_FRESH_MS,
    placeholderData: keepPreviousData,
  });
}

/** All metric names of a run, in order. */
export const metricNamesQuery = (run: string) =>
  askRows(["metric-names", run], () => api.GET("/api/v1/runs/{run}/metrics/names", at(run)), { staleTime: METRICS_FRESH_MS, retry: false });

const REFRESH_MS = 5_000;
/** Only the first run announces its metrics to the page; those beside it are asked for. */
const BESIDE_MS = 15_000;

/** Refetch shown lines and names when the first run announces metrics, and at an interval while a run is live. */
export function useMetricsRefresh(runs: readonly string[], isLive: boolean): void {
  const queries = useQueryClient();
  const keys = [["metric-lines"], ...runs.map((run) => ["metric-names", run])];
  const words = JSON.stringify(keys);
  const announcedMs = usePartChangeFeed(`run:${runs[0] ?? ""}`, "metrics", REFRESH_MS, ...keys);
  const everyMs = runs.length > 1 ? Math.min(BESIDE_MS, announcedMs) : announcedMs;
  useEffect(() => {
    if (!isLive) return;
    const refresh = () => {
      if (!focusManager.isFocused()) return;
      for (const queryKey of JSON.parse(words) as string[][]) void queries.invalidateQueries({ queryKey });
    };
    const timer = setInterval(refresh, everyMs);
    return () => clearInterval(timer);
  }, [isLive, everyMs, words, queries]);
}
