/** API queries for run comparison. */

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, at, results } from "@/api/client";
import { NEWEST } from "@/api/runLists";
import type { components } from "@/api/schema";
import type { BatchRow } from "@/api/types";

const MATCHES_AT_MOST = 30;
const COMPARED_MS = 30_000;

/** Runs that match a filter, newest first. */
export const matchingRunsQuery = (q: string) =>
  queryOptions({
    queryKey: ["matching-runs", q],
    queryFn: () => results(api.GET("/api/v1/runs", { params: { query: { q, sort: NEWEST, limit: MATCHES_AT_MOST } } })),
    placeholderData: keepPreviousData,
    retry: false,
  });

export type PromptRow = components["schemas"]["PromptRow"];

/** Recent prompts of runs, most frequent first. */
export const promptsQuery = (runs: string[]) =>
  queryOptions({
    queryKey: ["prompts", runs],
    queryFn: (): Promise<PromptRow[]> => results(api.GET("/api/v1/prompts", { params: { query: { runs: runs.join(",") } } })),
    staleTime: COMPARED_MS,
    placeholderData: keepPreviousData,
    retry: false,
  });

/** The most recently leased batch; null before the first. */
export const newestBatchQuery = (run: string) =>
  queryOptions({
    queryKey: ["newest-batch", run],
    queryFn: async (): Promise<BatchRow | null> => {
      const { path } = at(run).params;
      return (await results(api.GET("/api/v1/runs/{run}/batches", { params: { path, query: { limit: 1 } } })))[0] ?? null;
    },
    refetchInterval: COMPARED_MS,
    retry: false,
  });
