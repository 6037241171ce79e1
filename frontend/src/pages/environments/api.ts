/** API queries for the known environments. */

import { infiniteQueryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, ask, body } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type KnownEnvironment = Schemas["KnownEnvironment"];
export type KnownEnvironments = Schemas["KnownEnvironments"];
export type KnownEnvironmentDetail = Schemas["KnownEnvironmentDetail"];
export type EnvironmentRun = Schemas["EnvironmentRun"];
export type ProbedEnvironment = Schemas["ProbedEnvironment"];
type ProbeEnvironment = Schemas["ProbeEnvironmentRequest"];
type EnvironmentApproval = Schemas["EnvironmentApprovalRequest"];
export type EnvironmentKind = KnownEnvironment["kind"];

export const ENVIRONMENT_KINDS = ["outside", "steps", "tokens"] as const;
const REREAD_MS = 10_000;

export function knownEnvironmentsQuery(q: string, kind: EnvironmentKind | undefined, limit: number) {
  return infiniteQueryOptions({
    queryKey: ["known-environments", q, kind, limit],
    queryFn: ({ pageParam }) =>
      body(api.GET("/api/v1/environments", { params: { query: { q, kind, limit, cursor: pageParam || undefined } } })),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: REREAD_MS,
    placeholderData: (before) => before,
  });
}

export function knownEnvironmentQuery(kind: EnvironmentKind, name: string) {
  return ask(
    ["known-environments", "one", kind, name],
    () => api.GET("/api/v1/environments/detail", { params: { query: { kind, name } } }),
    { refetchInterval: REREAD_MS },
  );
}

/** Probe an environment with one episode of random actions; nothing is stored. */
export function useTryEnvironment() {
  return useMutation({
    mutationFn: (wanted: ProbeEnvironment): Promise<ProbedEnvironment> => body(api.POST("/api/v1/environments/probes", { body: wanted })),
  });
}

/** Block an environment for new runs, or allow it again. */
export function useJudgeEnvironment() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (approval: EnvironmentApproval) => body(api.PUT("/api/v1/environments/approvals", { body: approval })),
    onSettled: () => queries.invalidateQueries({ queryKey: ["known-environments"] }),
  });
}
