/** Ask who changed what. */

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";
import { preferences } from "@/preferences";

export type AuditRow = components["schemas"]["AuditRow"];
export type Asked = { text?: string; actor?: string; run?: string; kind?: string; request?: string; people?: string };

const REREAD_MS = 5_000;

export function auditQuery(asked: Asked) {
  return infiniteQueryOptions({
    queryKey: ["audit", asked],
    queryFn: ({ pageParam }) =>
      body(api.GET("/api/audit", { params: { query: { ...asked, limit: preferences().rows, before: pageParam ?? undefined } } })),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next_before ?? undefined,
    refetchInterval: REREAD_MS,
    placeholderData: (before) => before,
  });
}

const LATELY_ROWS = 6;
const LATELY_EVERY_MS = 15_000;

/** The last few things that people and tokens changed. */
export const latelyQuery = queryOptions({
  queryKey: ["audit", "lately"],
  queryFn: async () => (await body(api.GET("/api/audit", { params: { query: { people: "1", limit: LATELY_ROWS } } }))).results,
  refetchInterval: LATELY_EVERY_MS,
});
