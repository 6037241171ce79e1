/** API queries and mutations for saved comparisons. */

import { queryOptions } from "@tanstack/react-query";
import { useChange } from "@/api/changes";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type Comparison = Schemas["ComparisonRow"];
export type NewComparison = Schemas["SaveComparisonRequest"];

export const comparisonsQuery = queryOptions({
  queryKey: ["comparisons"],
  queryFn: async (): Promise<Comparison[]> => (await body(api.GET("/api/v1/comparisons"))).results,
});

export function comparisonQuery(id: number) {
  return queryOptions({
    queryKey: ["comparisons", id],
    queryFn: (): Promise<Comparison> => body(api.GET("/api/v1/comparisons/{comparison}", { params: { path: { comparison: String(id) } } })),
    retry: false,
  });
}

export function useSaveComparison() {
  return useChange(
    comparisonsQuery.queryKey,
    (comparison: NewComparison): Promise<Comparison> => body(api.POST("/api/v1/comparisons", { body: comparison })),
  );
}

export function useDeleteComparison(id: number) {
  return useChange(comparisonsQuery.queryKey, (reason: string) =>
    body(api.DELETE("/api/v1/comparisons/{comparison}", { params: { path: { comparison: String(id) }, query: { reason } } })),
  );
}
