/** API queries and mutations for user-defined presets. */

import { queryOptions } from "@tanstack/react-query";
import { api, body, useChange } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type SavedPreset = Schemas["SavedPresetRow"];
export type Access = SavedPreset["access"];

export const presetsQuery = queryOptions({
  queryKey: ["presets"],
  queryFn: async () => (await body(api.GET("/api/v1/presets"))).results,
  staleTime: 10_000,
});

type NewPreset = { name: string; description: string; access: Access; config: Record<string, unknown>; reason: string };

/** Save a configuration; `revision` of an existing preset replaces that revision. */
export function useSavePreset() {
  return useChange(
    presetsQuery.queryKey,
    ({ name, revision, ...fields }: NewPreset & { revision: number | null }): Promise<SavedPreset> =>
      revision === null
        ? body(api.POST("/api/v1/presets", { body: { name, ...fields } }))
        : body(api.PATCH("/api/v1/presets/{preset}", { params: { path: { preset: name } }, body: { revision, ...fields } })),
  );
}

export function useDeletePreset() {
  return useChange(presetsQuery.queryKey, ({ name, reason }: { name: string; reason: string }) =>
    body(api.DELETE("/api/v1/presets/{preset}", { params: { path: { preset: name }, query: { reason } } })),
  );
}

/** The API's limit of one page. */
const NAMES_AT_MOST = 100;

/** The names of the registered environments of a kind that new runs may use. */
export function environmentNamesQuery(kind: "steps" | "tokens") {
  return queryOptions({
    queryKey: ["known-environments", "names", kind],
    queryFn: async () => {
      const page = await body(api.GET("/api/v1/environments", { params: { query: { kind, limit: NAMES_AT_MOST } } }));
      return page.results.filter(({ registered, denied }) => registered && !denied).map(({ name }) => name);
    },
    staleTime: 60_000,
  });
}
