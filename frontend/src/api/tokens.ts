/** API queries and mutations for tokens. */

import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type TokenRow = Schemas["TokenRow"];
export type CreatedToken = Schemas["CreatedToken"];
type CreateToken = Schemas["CreateTokenRequest"];
export type Scope = CreateToken["scopes"][number];

export const tokensQuery = queryOptions({
  queryKey: ["tokens"],
  queryFn: async () => (await body(api.GET("/api/v1/tokens"))).results,
});

export function useCreateToken() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (token: CreateToken): Promise<CreatedToken> => body(api.POST("/api/v1/tokens", { body: token })),
    onSettled: () => queries.invalidateQueries({ queryKey: tokensQuery.queryKey }),
  });
}

export function useRevoke() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ token, reason }: { token: number; reason: string }) =>
      body(api.DELETE("/api/v1/tokens/{token}", { params: { path: { token: String(token) }, query: { reason } } })),
    onSettled: () => queries.invalidateQueries({ queryKey: tokensQuery.queryKey }),
  });
}
