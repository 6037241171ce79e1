/** API queries and mutations for runs, their lists and their comparison. */

import { keepPreviousData, queryOptions, useMutation } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, ask, askRows, at, body, pagesOf, results, useChange } from "@/api/client";
import type { components } from "@/api/schema";
import type { Preset, RunCheck, RunDetail, RunRow, RunVerb } from "@/api/types";
import type { JsonSchema } from "@/forms/schema";
import { useChangeFeed } from "@/live/live";

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

export const qualifiersQuery = askRows(["run-filter"], () => api.GET("/api/v1/run-filter"), { staleTime: Number.POSITIVE_INFINITY });

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
  askRows(
    ["run-filter", "values", of, part],
    () => api.GET("/api/v1/run-filter/values", { params: { query: { of: of as (typeof VALUES_OF)[number], part } } }),
    { staleTime: LIST_FRESH_MS },
  );

/** The pages of a list of runs with the values of columns. */
export function runsQuery(q: string, sort: Sort, named: NamedColumn[] = []) {
  const columns = named.join(",") || undefined;
  const load = (cursor: string | undefined) =>
    body(api.GET("/api/v1/runs", { params: { query: { q, sort, columns, limit: RUNS_PER_PAGE, cursor } } }));
  return { ...pagesOf(["runs", q, sort, columns], load), placeholderData: keepBefore };
}

/**
 * Refetch lists of runs when a live run comes, goes or changes its state; return the fallback interval.
 *
 * Live rows have the values of the usual columns. A list with others, or filtered or ordered by values, is refetched
 * when they change.
 */
export function useRunsRefresh(live: RunRow[], dependsOnValues: boolean): number {
  const states = useMemo(
    () =>
      live
        .map(({ id, status }) => `${id} ${status}`)
        .sort()
        .join(),
    [live],
  );
  return useChangeFeed(dependsOnValues ? live : states, REREAD_MS, ["runs"]);
}

/** Runs whose name contains the text, last changed first; without text, the runs that changed last. */
export function foundRunsQuery(typed: string) {
  // Quoted, so that a word is not parsed as a filter term.
  const q = typed
    .split(/\s+/)
    .filter(Boolean)
    .map((word) => `"${word.replaceAll('"', "")}"`)
    .join(" ");
  return askRows(["found-runs", q], () => api.GET("/api/v1/runs", { params: { query: { q, sort: "-changed", limit: 8 } } }), {
    staleTime: REREAD_MS,
    placeholderData: keepBefore,
  });
}

/** Summaries of runs that the live list does not include. */
export const runActivityQuery = (ids: number[]) =>
  askRows(["run-activity", ids], () => api.GET("/api/v1/run-activity", { params: { query: { ids: ids.join(",") } } }), {
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

export type RunConfigSchema = { schema: JsonSchema; presets: Preset[] };

export const schemaQuery = queryOptions({
  queryKey: ["run-config-schema"],
  queryFn: async () => (await body(api.GET("/api/v1/run-config-schema"))) as unknown as RunConfigSchema,
  staleTime: Number.POSITIVE_INFINITY,
});

type NewRun = {
  name: string;
  project?: string;
  uses_project_defaults?: boolean;
  preset: string;
  config: Record<string, unknown>;
  start: boolean;
};
const NO_PROJECT = { project: "", uses_project_defaults: true };

export const useCreateRun = () =>
  useMutation({
    mutationFn: (run: NewRun) => body(api.POST("/api/v1/runs", { body: { kind: "fleet", lenient: false, ...NO_PROJECT, ...run } })),
  });

const check = (run: Omit<NewRun, "start">, fields_only: boolean): Promise<RunCheck> =>
  body(api.POST("/api/v1/run-checks", { body: { ...NO_PROJECT, ...run, fields_only } }));

/** Check a launch with its environments; nothing is stored. */
export const useCheckRun = () => useMutation({ mutationFn: (run: Omit<NewRun, "start">) => check(run, false) });

/** Check the fields of a launch, given as JSON, without its environments. */
export const checkQuery = (launch: string) =>
  queryOptions({ queryKey: ["run-check", launch], queryFn: () => check(JSON.parse(launch), true), gcTime: 0, retry: false });

export const runQuery = (name: string) =>
  ask(["run", name], () => api.GET("/api/v1/runs/{run}", at(name)), { staleTime: 3_000, retry: false });

export type ChangeRun = components["schemas"]["PatchedChangeRunRequest"];
/** Limits on staleness and lease duration; null means no limit. */
export type NewLimits = Pick<ChangeRun, "off_policy_tolerance" | "max_staleness" | "lease_seconds" | "on_second_registration"> & {
  reason: string;
};

const patch = (name: string, change: ChangeRun): Promise<RunDetail> => body(api.PATCH("/api/v1/runs/{run}", { ...at(name), body: change }));

/** Request a number of workers; the run's next state arrives over the live page. */
export const useResize = (name: string) =>
  useMutation({ mutationFn: ({ workers, reason }: { workers: number; reason: string }) => patch(name, { num_workers: workers, reason }) });

/** Change limits of an active run; they apply from the next push and the next batch. */
export const useChangeLimits = (name: string) => useChange(["queue", name], (limits: NewLimits) => patch(name, limits));

/** Change settings of a run; the change history is refetched. */
export const useChangeRun = (name: string) => useChange(["queue", name], (change: ChangeRun) => patch(name, change), ["changes", name]);

/** Archive an outside run and start a new one under its name. */
export const useReset = (name: string) =>
  useMutation({
    mutationFn: (reason: string): Promise<RunDetail> => body(api.POST("/api/v1/runs/{run}/reset", { ...at(name), body: { reason } })),
  });

export const deletionQuery = (address: string) =>
  ask(["deletion", address], () => api.GET("/api/v1/runs/{run}/deletion", at(address)), { gcTime: 0 });

/** Delete a run with all its data. */
export const useDeleteRun = (address: string) =>
  useChange(["runs"], (reason: string) =>
    body(api.DELETE("/api/v1/runs/{run}", { params: { path: { run: address }, query: { reason } } })),
  );

export type Asked = { verb: RunVerb; reason: string };

export const useAsk = (name: string) =>
  useMutation({
    mutationFn: ({ verb, reason }: Asked): Promise<RunDetail> =>
      body(api.POST(`/api/v1/runs/{run}/${verb}`, { ...at(name), body: { reason } })),
  });

/** Replace the tags of a run. */
export const useSetTags = (name: string) =>
  useChange(
    ["run-filter", "values", "tag"],
    (wanted: { tags: string[]; reason: string }): Promise<RunDetail> =>
      body(api.PUT("/api/v1/runs/{run}/tags", { ...at(name), body: wanted })),
  );

const MATCHES_AT_MOST = 30;

/** Runs that match a filter, newest first. */
export const matchingRunsQuery = (q: string) =>
  askRows(["matching-runs", q], () => api.GET("/api/v1/runs", { params: { query: { q, sort: NEWEST, limit: MATCHES_AT_MOST } } }), {
    placeholderData: keepPreviousData,
    retry: false,
  });
