/** API queries for the audit log. */

import { infiniteQueryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";
import { preferences } from "@/preferences";

export type AuditRow = components["schemas"]["AuditRow"];
export type Asked = { text?: string; actor?: string; run?: string; kind?: string; request?: string; people?: string };

export function auditQuery(asked: Asked) {
  return infiniteQueryOptions({
    queryKey: ["audit", asked],
    queryFn: ({ pageParam }) =>
      body(api.GET("/api/v1/audit", { params: { query: { ...asked, limit: preferences().rows, cursor: pageParam || undefined } } })),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: (before) => before,
  });
}
