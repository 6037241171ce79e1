/** API queries for run comparison. */

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import { NEWEST } from "@/api/runLists";

const FOUND_AT_MOST = 30;

/** Runs that match a filter, newest first. */
export function matchingRunsQuery(q: string) {
  return queryOptions({
    queryKey: ["matching-runs", q],
    queryFn: async () => (await body(api.GET("/api/v1/runs", { params: { query: { q, sort: NEWEST, limit: FOUND_AT_MOST } } }))).results,
    placeholderData: keepPreviousData,
    retry: false,
  });
}
