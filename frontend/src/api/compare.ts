/** API queries for run comparison. */

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, results } from "@/api/client";
import { NEWEST } from "@/api/runLists";

const MATCHES_AT_MOST = 30;

/** Runs that match a filter, newest first. */
export const matchingRunsQuery = (q: string) =>
  queryOptions({
    queryKey: ["matching-runs", q],
    queryFn: () => results(api.GET("/api/v1/runs", { params: { query: { q, sort: NEWEST, limit: MATCHES_AT_MOST } } })),
    placeholderData: keepPreviousData,
    retry: false,
  });
