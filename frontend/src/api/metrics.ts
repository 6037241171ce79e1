/** Ask for the names of metrics and for their lines. */

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";
import { linesOf } from "@/api/together";

export type MetricLine = components["schemas"]["MetricLine"];
export type MetricKey = components["schemas"]["MetricKey"];
export type MetricAxis = "step" | "time" | "elapsed" | "amount";
/** First and last place that is looked at. */
export type Span = { from: number; to: number };

const NAMES_A_PAGE = 60;
const MEASURED: ReadonlySet<string> = new Set(["starting", "running", "paused", "draining"]);
const REFRESH_MS = 5000;
/** What was asked for while the page was on its way is not asked for again when it is there. */
const FRESH_MS = 3000;

/** Whether a run in this state may measure more, so that its lines grow. */
export const mayMeasure = (status: string): boolean => MEASURED.has(status);

/** Names that hold every word, and begin with what is said. */
export function metricKeysQuery(run: string, search: string, prefix = "") {
  return infiniteQueryOptions({
    queryKey: ["metric-keys", run, search, prefix],
    initialPageParam: "",
    queryFn: ({ pageParam: after }) =>
      body(api.GET("/api/runs/{run}/metrics/keys", { params: { path: { run }, query: { search, prefix, after, limit: NAMES_A_PAGE } } })),
    getNextPageParam: (page) => page.next ?? undefined,
    staleTime: FRESH_MS,
  });
}

export type Looked = { runs: string[]; name: string; axis: MetricAxis; span?: Span; points: number; isLive: boolean };

/** One line a run; asked again every few seconds while the run goes on and the page is seen. Charts of one screen ask together. */
export function metricLinesQuery({ runs, name, axis, span, points, isLive }: Looked) {
  const asked = { runs: runs.join(","), names: name.split(","), x: axis, points, ...span };
  return queryOptions({
    queryKey: ["metric-lines", asked],
    queryFn: () => linesOf(asked),
    refetchInterval: isLive ? REFRESH_MS : false,
    staleTime: FRESH_MS,
    placeholderData: keepPreviousData,
  });
}

const NAMES_REREAD_MS = 30_000;

/** All names of a run's metrics, in their order. */
export function metricNamesOfQuery(run: string) {
  return queryOptions({
    queryKey: ["metric-names-of", run],
    queryFn: async (): Promise<string[]> => (await body(api.GET("/api/runs/{run}/metrics/names", { params: { path: { run } } }))).names,
    refetchInterval: NAMES_REREAD_MS,
  });
}

/** A line for each of several metrics of one run. */
export function namedLinesQuery({
  run,
  names,
  axis,
  span,
  points,
  isLive,
}: Omit<Looked, "runs" | "name"> & { run: string; names: readonly string[] }) {
  const query = { names: names.join(","), x: axis, points, ...span };
  return queryOptions({
    queryKey: ["metric-lines", run, query],
    queryFn: async (): Promise<MetricLine[]> =>
      (await body(api.GET("/api/runs/{run}/metrics/lines", { params: { path: { run }, query } }))).lines,
    refetchInterval: isLive ? REFRESH_MS : false,
    staleTime: FRESH_MS,
    placeholderData: keepPreviousData,
  });
}

/** The one metric of exactly this name, however many there are; null where the run has none. */
export function metricKeyQuery(run: string, name: string) {
  return queryOptions({
    queryKey: ["metric-key", run, name],
    queryFn: async (): Promise<MetricKey | null> => {
      const query = { prefix: name, limit: 1 };
      const { results } = await body(api.GET("/api/runs/{run}/metrics/keys", { params: { path: { run }, query } }));
      return results.find((key) => key.name === name) ?? null;
    },
  });
}
