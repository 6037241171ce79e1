/** API queries for lists of runs, and bulk actions on runs. */

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type ListedRun = Schemas["RunRow"];
export type ActedOn = Schemas["ActedOn"];
export type RunActivity = Schemas["RunActivity"];

export const SORTS = ["created", "changed", "name", "step", "policy", "planned", "rate", "staleness", "return"] as const;
/** A configuration value by its dotted path, or the last value of a metric. */
export type NamedColumn = `${"config" | "metric"}.${string}`;
export const isNamed = (id: string): id is NamedColumn => /^(config|metric)\../.test(id);
export type SortName = (typeof SORTS)[number] | NamedColumn;
export type Sort = SortName | `-${SortName}`;
export const NEWEST: Sort = "-created";
const REREAD_MS = 5_000;
const RUNS_PER_PAGE = 50;

export const qualifiersQuery = queryOptions({
  queryKey: ["run-filter"],
  queryFn: async () => (await body(api.GET("/api/v1/run-filter"))).results,
  staleTime: Number.POSITIVE_INFINITY,
});

/** Names of all configuration values and metrics of the runs that match a filter. */
export function columnsQuery(q: string, enabled: boolean) {
  return queryOptions({
    queryKey: ["run-columns", q],
    queryFn: async () => (await body(api.GET("/api/v1/run-columns", { params: { query: { q } } }))).results.filter(isNamed),
    enabled,
    staleTime: 30_000,
    placeholderData: (before) => before,
  });
}

export const VALUES_OF = ["tag", "env", "owner", "preset", "project", "name"] as const;
type ValueOf = (typeof VALUES_OF)[number];

export function valuesQuery(of: string, part: string) {
  return queryOptions({
    queryKey: ["run-filter", "values", of, part],
    queryFn: async () => (await body(api.GET("/api/v1/run-filter/values", { params: { query: { of: of as ValueOf, part } } }))).results,
    staleTime: 30_000,
  });
}

/** The pages of a list of runs with the values of columns, as an infinite query. */
export function runsQuery(q: string, sort: Sort, named: NamedColumn[] = []) {
  const columns = named.join(",") || undefined;
  return infiniteQueryOptions({
    queryKey: ["runs", q, sort, columns],
    queryFn: ({ pageParam }) =>
      body(
        api.GET("/api/v1/runs", {
          params: { query: { q, sort, columns, limit: RUNS_PER_PAGE, cursor: pageParam || undefined } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: REREAD_MS,
    placeholderData: (before) => before,
  });
}

const FOUND_AT_MOST = 8;

/** Runs whose name contains the text, last changed first; without text, the runs that changed last. */
export function foundRunsQuery(typed: string) {
  // Quoted, so that a word is not parsed as a filter term.
  const q = typed
    .split(/\s+/)
    .filter(Boolean)
    .map((word) => `"${word.replaceAll('"', "")}"`)
    .join(" ");
  return queryOptions({
    queryKey: ["found-runs", q],
    queryFn: async () =>
      (await body(api.GET("/api/v1/runs", { params: { query: { q, sort: "-changed", limit: FOUND_AT_MOST } } }))).results,
    staleTime: 5_000,
    placeholderData: (before) => before,
  });
}

/** Summaries of runs that the live list does not include. */
export function runActivityQuery(ids: number[]) {
  return queryOptions({
    queryKey: ["run-activity", ids],
    queryFn: async () => (await body(api.GET("/api/v1/run-activity", { params: { query: { ids: ids.join(",") } } }))).results,
    enabled: ids.length > 0,
    refetchInterval: REREAD_MS,
    placeholderData: (before) => before,
  });
}

export type Action = Schemas["ActOnRunsRequest"]["action"];
/** Selected runs, or those that match a filter; without a filter, the confirmed number of all runs. */
export type Which = { ids: number[] } | { q: string; all_runs?: number };
export type Wanted = { action: Action; which: Which; reason: string; tag: string };

/** Run a bulk action, one request at a time; `tell` receives the numbers done and left. */
export async function actOnRuns(wanted: Wanted, tell: (done: number, left: number) => void): Promise<ActedOn[]> {
  const { action, which, reason, tag } = wanted;
  const all: ActedOn[] = [];
  let after: number | null = 0;
  while (after !== null) {
    const ids = "ids" in which ? which.ids : null;
    const q = "q" in which ? which.q : null;
    const all_runs = ("q" in which && which.all_runs) || null;
    const answer: Schemas["ActedOnRuns"] = await body(
      api.POST("/api/v1/run-actions", { body: { action, ids, q, all_runs, reason, tag, after_id: after } }),
    );
    all.push(...answer.results);
    tell(all.length, answer.left);
    after = answer.next_after_id;
  }
  return all;
}
