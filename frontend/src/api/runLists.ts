/** API queries for lists of runs, and bulk actions on runs. */

import { queryOptions } from "@tanstack/react-query";
import { pagesOf } from "@/api/changes";
import { api, body, results } from "@/api/client";
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
const LIST_FRESH_MS = 30_000;
const keepBefore = <T>(before: T) => before;

export const qualifiersQuery = queryOptions({
  queryKey: ["run-filter"],
  queryFn: () => results(api.GET("/api/v1/run-filter")),
  staleTime: Number.POSITIVE_INFINITY,
});

/** Names of all configuration values and metrics of the runs that match a filter. */
export const columnsQuery = (q: string, enabled: boolean) =>
  queryOptions({
    queryKey: ["run-columns", q],
    queryFn: async () => (await results(api.GET("/api/v1/run-columns", { params: { query: { q } } }))).filter(isNamed),
    enabled,
    staleTime: LIST_FRESH_MS,
    placeholderData: keepBefore,
  });

export const VALUES_OF = ["tag", "env", "owner", "preset", "project", "name"] as const;

export const valuesQuery = (of: string, part: string) =>
  queryOptions({
    queryKey: ["run-filter", "values", of, part],
    queryFn: () => results(api.GET("/api/v1/run-filter/values", { params: { query: { of: of as (typeof VALUES_OF)[number], part } } })),
    staleTime: LIST_FRESH_MS,
  });

/** The pages of a list of runs with the values of columns. */
export function runsQuery(q: string, sort: Sort, named: NamedColumn[] = []) {
  const columns = named.join(",") || undefined;
  const load = (cursor: string | undefined) =>
    body(api.GET("/api/v1/runs", { params: { query: { q, sort, columns, limit: RUNS_PER_PAGE, cursor } } }));
  return { ...pagesOf(["runs", q, sort, columns], load), refetchInterval: REREAD_MS, placeholderData: keepBefore };
}

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
    queryFn: () => results(api.GET("/api/v1/runs", { params: { query: { q, sort: "-changed", limit: 8 } } })),
    staleTime: REREAD_MS,
    placeholderData: keepBefore,
  });
}

/** Summaries of runs that the live list does not include. */
export const runActivityQuery = (ids: number[]) =>
  queryOptions({
    queryKey: ["run-activity", ids],
    queryFn: () => results(api.GET("/api/v1/run-activity", { params: { query: { ids: ids.join(",") } } })),
    enabled: ids.length > 0,
    refetchInterval: REREAD_MS,
    placeholderData: keepBefore,
  });

export type Action = Schemas["ActOnRunsRequest"]["action"];
/** Selected runs, or those that match a filter; without a filter, the confirmed number of all runs. */
export type Which = { ids: number[] } | { q: string; all_runs?: number };
type Wanted = { action: Action; which: Which; reason: string; tag: string };

/** Run a bulk action, one request at a time; `tell` receives the numbers done and left. */
export async function actOnRuns({ which, ...wanted }: Wanted, tell: (done: number, left: number) => void): Promise<ActedOn[]> {
  const all: ActedOn[] = [];
  let after_id: number | null = 0;
  while (after_id !== null) {
    const asked = { ids: null, q: null, all_runs: null, ...which, ...wanted, after_id };
    const answer: Schemas["ActedOnRuns"] = await body(api.POST("/api/v1/run-actions", { body: asked }));
    all.push(...answer.results);
    tell(all.length, answer.left);
    after_id = answer.next_after_id;
  }
  return all;
}
