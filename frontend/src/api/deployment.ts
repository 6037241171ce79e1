/** API queries and mutations for the deployment, the user's sessions, and tokens. */

import { queryOptions, useMutation } from "@tanstack/react-query";
import { api, ask, askRows, body, useChange } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type Cluster = Schemas["Cluster"];
export type Part = Schemas["Part"];
export type RayNode = Schemas["RayNode"];
export type ProcessRow = Schemas["ProcessRow"];
export type PartExit = Schemas["PartExitRow"];
export type JobWorker = Schemas["WorkerRow"];
export type NodeWorkers = Schemas["NodeWorkers"];
export type MachineCordon = Schemas["MachineCordonRow"];
export type Retention = Schemas["RetentionRow"];

export const deploymentQuery = ask(["deployment"], () => api.GET("/api/v1/server"), { staleTime: 60_000 });

export const retentionQuery = ask(["retention"], () => api.GET("/api/v1/server/retention"));

// Their outcome arrives over the live topics `me` and `cluster`, on this page too.

export type Notice = Schemas["Notice"];

/** Set the notice shown to all users. */
export const useSetNotice = () =>
  useMutation({ mutationFn: (wanted: Schemas["SetNoticeRequest"]) => body(api.PUT("/api/v1/server/notice", { body: wanted })) });

export const useClearNotice = () =>
  useMutation({ mutationFn: (reason: string) => body(api.DELETE("/api/v1/server/notice", { params: { query: { reason } } })) });

/** Cordon or uncordon a machine. */
export const useCordonMachine = () =>
  useMutation({
    mutationFn: ({ node, reason, lifts }: { node: string; reason: string; lifts: boolean }) =>
      lifts
        ? body(api.DELETE("/api/v1/cluster/nodes/{node}/cordon", { params: { path: { node }, query: { reason } } }))
        : body(api.PUT("/api/v1/cluster/nodes/{node}/cordon", { params: { path: { node } }, body: { reason } })),
  });

export const sessionsQuery = queryOptions({
  queryKey: ["sessions"],
  queryFn: async () => (await body(api.GET("/api/v1/sessions"))).sessions,
});

/** End all sessions but the current one. */
export const useEndSessions = () =>
  useChange(sessionsQuery.queryKey, (reason: string) => body(api.DELETE("/api/v1/sessions", { params: { query: { reason } } })));

export type TokenRow = Schemas["TokenRow"];
export type CreatedToken = Schemas["CreatedToken"];
type CreateToken = Schemas["CreateTokenRequest"];
export type Scope = CreateToken["scopes"][number];

export const tokensQuery = askRows(["tokens"], () => api.GET("/api/v1/tokens"));

export const useCreateToken = () =>
  useChange(tokensQuery.queryKey, (token: CreateToken): Promise<CreatedToken> => body(api.POST("/api/v1/tokens", { body: token })));

export const useRevoke = () =>
  useChange(tokensQuery.queryKey, ({ token, reason }: { token: number; reason: string }) =>
    body(api.DELETE("/api/v1/tokens/{token}", { params: { path: { token: String(token) }, query: { reason } } })),
  );
