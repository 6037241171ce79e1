/** API queries and mutations for the deployment: its parts, its identity, and the user's sessions. */

import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type Cluster = Schemas["Cluster"];
export type Part = Schemas["Part"];
export type DatabasePart = Schemas["DatabasePart"];
export type BrokerPart = Schemas["BrokerPart"];
export type StoragePart = Schemas["StoragePart"];
export type RayPart = Schemas["RayPart"];
export type RayNode = Schemas["RayNode"];
export type ProcessRow = Schemas["ProcessRow"];
export type PartExit = Schemas["PartExitRow"];
export type JobWorker = Schemas["WorkerRow"];

export type NodeWorkers = Schemas["NodeWorkers"];
export type MachineCordon = Schemas["MachineCordonRow"];
export type Retention = Schemas["RetentionRow"];
export type Notice = Schemas["Notice"];
type SetNotice = Schemas["SetNoticeRequest"];

export const deploymentQuery = queryOptions({
  queryKey: ["deployment"],
  queryFn: () => body(api.GET("/api/v1/server")),
  staleTime: 60_000,
});

export const retentionQuery = queryOptions({
  queryKey: ["retention"],
  queryFn: () => body(api.GET("/api/v1/server/retention")),
});

/** Set the notice shown to all users; it arrives over the live topic `me`, on this page too. */
export function useSetNotice() {
  return useMutation({
    mutationFn: (wanted: SetNotice) => body(api.PUT("/api/v1/server/notice", { body: wanted })),
  });
}

export function useClearNotice() {
  return useMutation({
    mutationFn: (reason: string) => body(api.DELETE("/api/v1/server/notice", { params: { query: { reason } } })),
  });
}

/** Cordon or uncordon a machine; progress arrives over the live topic of the cluster. */
export function useCordonMachine() {
  return useMutation({
    mutationFn: ({ node, reason, lifts }: { node: string; reason: string; lifts: boolean }) =>
      lifts
        ? body(api.DELETE("/api/v1/cluster/nodes/{node}/cordon", { params: { path: { node }, query: { reason } } }))
        : body(api.PUT("/api/v1/cluster/nodes/{node}/cordon", { params: { path: { node } }, body: { reason } })),
  });
}

export const sessionsQuery = queryOptions({
  queryKey: ["sessions"],
  queryFn: async () => (await body(api.GET("/api/v1/sessions"))).sessions,
});

/** End all sessions but the current one. */
export function useEndSessions() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (reason: string) => body(api.DELETE("/api/v1/sessions", { params: { query: { reason } } })),
    onSettled: () => queries.invalidateQueries({ queryKey: sessionsQuery.queryKey }),
  });
}
