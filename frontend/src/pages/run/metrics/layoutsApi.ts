/** API queries and mutations for saved layouts of the metrics tab. */

import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
/** The contents of a layout. */
export type MetricLook = Schemas["MetricLook"];
export type MetricLayout = Schemas["MetricLayoutRow"];
type SetMetricLayout = Schemas["SetMetricLayoutRequest"];

export function layoutsQuery(run: string) {
  return queryOptions({
    queryKey: ["metric-layouts", run],
    queryFn: async (): Promise<MetricLayout[]> =>
      (await body(api.GET("/api/runs/{run}/metric-layouts", { params: { path: { run } } }))).results,
  });
}

function useLayoutsChanged() {
  const queries = useQueryClient();
  return () => queries.invalidateQueries({ queryKey: ["metric-layouts"] });
}

/** Create a layout, or replace an existing one. */
export function useSaveLayout(run: string) {
  return useMutation({
    mutationFn: ({ id, layout }: { id: number | null; layout: SetMetricLayout }): Promise<MetricLayout> =>
      id === null
        ? body(api.POST("/api/runs/{run}/metric-layouts", { params: { path: { run } }, body: layout }))
        : body(api.PUT("/api/runs/{run}/metric-layouts/{layout}", { params: { path: { run, layout: String(id) } }, body: layout })),
    onSettled: useLayoutsChanged(),
  });
}

export function useDeleteLayout(run: string) {
  return useMutation({
    mutationFn: ({ id, reason }: { id: number; reason: string }) =>
      body(api.DELETE("/api/runs/{run}/metric-layouts/{layout}", { params: { path: { run, layout: String(id) }, query: { reason } } })),
    onSettled: useLayoutsChanged(),
  });
}
