/** API queries for run comparison. */

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import { NEWEST } from "@/api/runLists";
import type { components } from "@/api/schema";
import type { BatchRow } from "@/api/types";

const FOUND_AT_MOST = 30;
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
