/** API queries for metric names and series. */

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import { loadLines } from "@/api/metricsBatcher";
import type { components } from "@/api/schema";
import type { MetricAxis, MetricLine } from "@/api/types";

/** The built-in return of training episodes, or mean score of groups. */
export const BUILTIN_RETURN = "rolldeck/reward/mean";

export type MetricKey = components["schemas"]["MetricKey"];
/** First and last x value of the view. */
export type Span = { from: number; to: number };

const NAMES_A_PAGE = 60;
const MEASURED: ReadonlySet<string> = new Set(["starting", "running", "paused", "draining"]);
/** Interval between refetches of metrics that change. */
export const REFRESH_MS = 5000;
/** Data that the router prefetched is not fetched again on mount. */
const FRESH_MS = 3000;

/** Whether a run in this state may still record metrics. */
export const mayMeasure = (status: string): boolean => MEASURED.has(status);

/** Names that contain every word and start with the prefix. */
export function metricKeysQuery(run: string, search: string, prefix = "") {
  return infiniteQueryOptions({
    queryKey: ["metric-keys", run, search, prefix],
    initialPageParam: "",
    queryFn: ({ pageParam }) => {
      const query = { search, prefix, limit: NAMES_A_PAGE, cursor: pageParam || undefined };
      return body(api.GET("/api/v1/runs/{run}/metrics/keys", { params: { path: { run }, query } }));
    },
    getNextPageParam: (page) => page.next ?? undefined,
    staleTime: FRESH_MS,
  });
}

export type LinesView = { runs: string[]; name: string; axis: MetricAxis; span?: Span; points: number; isLive: boolean };

/** One line per run, refetched every few seconds while the run is active and the page visible. Charts of one screen share requests. */
export function metricLinesQuery({ runs, name, axis, span, points, isLive }: LinesView) {
  const asked = { runs: runs.join(","), names: name.split(","), x: axis, points, ...span };
  return queryOptions({
    queryKey: ["metric-lines", asked],
    queryFn: () => loadLines(asked),
    refetchInterval: isLive ? REFRESH_MS : false,
    staleTime: FRESH_MS,
    placeholderData: keepPreviousData,
  });
}

const NAMES_REREAD_MS = 30_000;

/** All metric names of a run, in order. */
export function metricNamesOfQuery(run: string) {
  return queryOptions({
    queryKey: ["metric-names-of", run],
    queryFn: async (): Promise<string[]> =>
      (await body(api.GET("/api/v1/runs/{run}/metrics/names", { params: { path: { run } } }))).results,
    refetchInterval: NAMES_REREAD_MS,
  });
}

/** One line for each of several metrics of a run. */
export function namedLinesQuery({
  run,
  names,
  axis,
  span,
  points,
  isLive,
}: Omit<LinesView, "runs" | "name"> & { run: string; names: readonly string[] }) {
  const query = { names: names.join(","), x: axis, points, ...span };
  return queryOptions({
    queryKey: ["metric-lines", run, query],
    queryFn: async (): Promise<MetricLine[]> =>
      (await body(api.GET("/api/v1/runs/{run}/metrics/lines", { params: { path: { run }, query } }))).lines,
    refetchInterval: isLive ? REFRESH_MS : false,
    staleTime: FRESH_MS,
    placeholderData: keepPreviousData,
  });
}

/** The metrics with exactly these names, as far as the run has them. */
export function namedKeysQuery(run: string, names: readonly string[]) {
  const query = { names: names.join(","), limit: names.length };
  return queryOptions({
    queryKey: ["metric-keys-named", run, query],
    queryFn: async (): Promise<MetricKey[]> =>
      (await body(api.GET("/api/v1/runs/{run}/metrics/keys", { params: { path: { run }, query } }))).results,
    enabled: names.length > 0,
    placeholderData: keepPreviousData,
  });
}
