/** API queries for run comparison. */

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import { BUILTIN_RETURN } from "@/api/metrics";
import { NEWEST } from "@/api/runLists";
import type { components } from "@/api/schema";
import type { BatchRow } from "@/api/types";

const FOUND_AT_MOST = 30;
const NAMES_AT_MOST = 500;
const FRESH_MS = 30_000;

/** Runs that match a filter, newest first. */
export function matchingRunsQuery(q: string) {
  return queryOptions({
    queryKey: ["matching-runs", q],
    queryFn: async () => (await body(api.GET("/api/v1/runs", { params: { query: { q, sort: NEWEST, limit: FOUND_AT_MOST } } }))).results,
    placeholderData: keepPreviousData,
    retry: false,
  });
}

export type NamesOfRun = { run: string; names: string[]; total: number };

/** Returns under their usual names: the built-in one, and those that trainers log. */
const USUAL_RETURNS = [
  BUILTIN_RETURN,
  "episode_return",
  "train/episode_return",
  "eval/episode_return",
  "reward",
  "reward_mean",
  "train/reward",
];

/** Metric names of a run; truncated for runs with very many, except for returns of usual names. */
export function metricNamesQuery(run: string, search: string) {
  const keys = (query: { search: string; limit: number } | { names: string }) =>
    body(api.GET("/api/v1/runs/{run}/metrics/keys", { params: { path: { run }, query } }));
  return queryOptions({
    queryKey: ["metric-names", run, search],
    queryFn: async (): Promise<NamesOfRun> => {
      const { results, total } = await keys({ search, limit: NAMES_AT_MOST });
      const names = results.map(({ name }) => name);
      const missing = search === "" && total > names.length ? USUAL_RETURNS.filter((name) => !names.includes(name)) : [];
      const further = missing.length > 0 ? (await keys({ names: missing.join(",") })).results.map(({ name }) => name) : [];
      return { run, names: [...names, ...further], total };
    },
    staleTime: FRESH_MS,
    retry: false,
  });
}

export type PromptRow = components["schemas"]["PromptRow"];

/** Recent prompts of runs, most frequent first. */
export function promptsQuery(runs: string[]) {
  return queryOptions({
    queryKey: ["prompts", runs],
    queryFn: async (): Promise<PromptRow[]> =>
      (await body(api.GET("/api/v1/prompts", { params: { query: { runs: runs.join(",") } } }))).results,
    staleTime: FRESH_MS,
    placeholderData: keepPreviousData,
    retry: false,
  });
}

/** The most recently leased batch; null before the first. */
export function newestBatchQuery(run: string) {
  return queryOptions({
    queryKey: ["newest-batch", run],
    queryFn: async (): Promise<BatchRow | null> => {
      const { results } = await body(api.GET("/api/v1/runs/{run}/batches", { params: { path: { run }, query: { limit: 1 } } }));
      return results[0] ?? null;
    },
    refetchInterval: FRESH_MS,
    retry: false,
  });
}
