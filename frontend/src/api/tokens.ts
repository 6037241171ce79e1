/** API queries and mutations for tokens. */

import { queryOptions } from "@tanstack/react-query";
import { useChange } from "@/api/changes";
import { api, body, results } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type TokenRow = Schemas["TokenRow"];
export type CreatedToken = Schemas["CreatedToken"];
type CreateToken = Schemas["CreateTokenRequest"];
export type Scope = CreateToken["scopes"][number];

export const tokensQuery = queryOptions({ queryKey: ["tokens"], queryFn: () => results(api.GET("/api/v1/tokens")) });

export const useCreateToken = () =>
  useChange(tokensQuery.queryKey, (token: CreateToken): Promise<CreatedToken> => body(api.POST("/api/v1/tokens", { body: token })));

export const useRevoke = () =>
  useChange(tokensQuery.queryKey, ({ token, reason }: { token: number; reason: string }) =>
    body(api.DELETE("/api/v1/tokens/{token}", { params: { path: { token: String(token) }, query: { reason } } })),
  );
