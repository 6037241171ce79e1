/** API queries for the known environments. */

import { keepPreviousData, queryOptions, useMutation } from "@tanstack/react-query";
import { api, body, pagesOf, useChange } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type KnownEnvironment = Schemas["KnownEnvironment"];
export type KnownEnvironments = Schemas["KnownEnvironments"];
export type KnownEnvironmentDetail = Schemas["KnownEnvironmentDetail"];
export type EnvironmentRun = Schemas["EnvironmentRun"];
export type ProbedEnvironment = Schemas["ProbedEnvironment"];
export type EnvironmentKind = KnownEnvironment["kind"];

export const ENVIRONMENT_KINDS = ["outside", "steps", "tokens"] as const;
const REREAD_MS = 60_000;

export const knownEnvironmentsQuery = (q: string, kind: EnvironmentKind | undefined, limit: number) => ({
  ...pagesOf(["known-environments", q, kind, limit], (cursor) =>
    body(api.GET("/api/v1/environments", { params: { query: { q, kind, limit, cursor } } })),
  ),
  refetchInterval: REREAD_MS,
  placeholderData: keepPreviousData,
});

export const knownEnvironmentQuery = (kind: EnvironmentKind, name: string) =>
  queryOptions({
    queryKey: ["known-environments", "one", kind, name],
    queryFn: () => body(api.GET("/api/v1/environments/detail", { params: { query: { kind, name } } })),
    refetchInterval: REREAD_MS,
  });

/** Probe an environment with one episode of random actions; nothing is stored. */
export const useProbe = () =>
  useMutation({
    mutationFn: (wanted: Schemas["ProbeEnvironmentRequest"]) => body(api.POST("/api/v1/environments/probes", { body: wanted })),
  });

/** Block an environment for new runs, or allow it again. */
export const useApprove = () =>
  useChange(["known-environments"], (approval: Schemas["EnvironmentApprovalRequest"]) =>
    body(api.PUT("/api/v1/environments/approvals", { body: approval })),
  );
