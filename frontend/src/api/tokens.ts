/** API queries and mutations for tokens and their request logs. */

import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type TokenRow = Schemas["TokenRow"];
export type TokenMinted = Schemas["TokenMinted"];
type MintToken = Schemas["MintTokenRequest"];
export type Scope = MintToken["scopes"][number];
export type ClientRow = Schemas["ClientRow"];
export type CallRow = Schemas["CallRow"];

export const tokensQuery = queryOptions({
  queryKey: ["tokens"],
  queryFn: async () => (await body(api.GET("/api/tokens"))).results,
});

export const clientsQuery = queryOptions({
  queryKey: ["api-clients"],
  queryFn: async () => (await body(api.GET("/api/api-clients"))).results,
  refetchInterval: 3_000,
});

export type Only = "refused" | "replayed" | undefined;

export function callsQuery(client: string, only: Only) {
  return queryOptions({
    queryKey: ["api-calls", client, only],
    queryFn: async () => (await body(api.GET("/api/api-calls", { params: { query: { client, only } } }))).results,
    enabled: client !== "",
    refetchInterval: 3_000,
    placeholderData: (before) => before,
  });
}

export function useMint() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (token: MintToken): Promise<TokenMinted> => body(api.POST("/api/tokens", { body: token })),
    onSettled: () => queries.invalidateQueries({ queryKey: tokensQuery.queryKey }),
  });
}

export function useRevoke() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ token, reason }: { token: number; reason: string }) =>
      body(api.DELETE("/api/tokens/{token}", { params: { path: { token: String(token) }, query: { reason } } })),
    onSettled: () => queries.invalidateQueries({ queryKey: tokensQuery.queryKey }),
  });
}
