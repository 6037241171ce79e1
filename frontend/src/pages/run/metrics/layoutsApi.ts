/** API queries and mutations for saved layouts of the metrics tab. */

import { queryOptions } from "@tanstack/react-query";
import { useChange } from "@/api/changes";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
/** The contents of a layout. */
export type MetricView = Schemas["MetricView"];
export type MetricLayout = Schemas["MetricLayoutRow"];
type SetMetricLayout = Schemas["SetMetricLayoutRequest"];

const LAYOUTS = "metric-layouts";

export function layoutsQuery(run: string) {
  return queryOptions({
    queryKey: [LAYOUTS, run],
    queryFn: async (): Promise<MetricLayout[]> =>
      (await body(api.GET("/api/v1/runs/{run}/metric-layouts", { params: { path: { run } } }))).results,
  });
}

/** Create a layout, or replace an existing one. */
export function useSaveLayout(run: string) {
  return useChange(
    [LAYOUTS],
    ({ id, layout }: { id: number | null; layout: SetMetricLayout }): Promise<MetricLayout> =>
      id === null
        ? body(api.POST("/api/v1/runs/{run}/metric-layouts", { params: { path: { run } }, body: layout }))
        : body(api.PUT("/api/v1/runs/{run}/metric-layouts/{layout}", { params: { path: { run, layout: String(id) } }, body: layout })),
  );
}

export function useDeleteLayout(run: string) {
  return useChange([LAYOUTS], ({ id, reason }: { id: number; reason: string }) =>
    body(api.DELETE("/api/v1/runs/{run}/metric-layouts/{layout}", { params: { path: { run, layout: String(id) }, query: { reason } } })),
  );
}
