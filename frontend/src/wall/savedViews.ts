/** API queries and mutations for saved views. */

import { queryOptions } from "@tanstack/react-query";
import { useChange } from "@/api/changes";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type SavedView = Schemas["ViewRow"];
type SetView = Schemas["SetViewRequest"];

const VIEWS = "views";

/** The views for a run; for several runs, all that the user sees. */
export function viewsQuery(run: string | undefined) {
  return queryOptions({
    queryKey: [VIEWS, run],
    queryFn: async (): Promise<SavedView[]> => (await body(api.GET("/api/v1/views", { params: { query: { run } } }))).results,
  });
}

/** Save a view, or replace an existing one. */
export function useSaveView() {
  return useChange(
    [VIEWS],
    ({ id, fields }: { id: number | null; fields: SetView }): Promise<SavedView> =>
      id === null
        ? body(api.POST("/api/v1/views", { body: fields }))
        : body(api.PUT("/api/v1/views/{view}", { params: { path: { view: String(id) } }, body: fields })),
  );
}

export function useDeleteView() {
  return useChange([VIEWS], ({ id, reason }: { id: number; reason: string }) =>
    body(api.DELETE("/api/v1/views/{view}", { params: { path: { view: String(id) }, query: { reason } } })),
  );
}
