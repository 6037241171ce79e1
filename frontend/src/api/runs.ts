/** API queries and mutations for runs. */

import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";
import type { Preset, RunCheck, RunDetail, RunVerb } from "@/api/types";
import type { JsonSchema } from "@/forms/schema";

export type RunConfigSchema = { schema: JsonSchema; presets: Preset[] };

export const schemaQuery = queryOptions({
  queryKey: ["run-config-schema"],
  queryFn: async (): Promise<RunConfigSchema> => {
    const { schema, presets } = await body(api.GET("/api/v1/run-config-schema"));
    return { schema: schema as JsonSchema, presets };
  },
  staleTime: Number.POSITIVE_INFINITY,
});

type NewRun = {
  name: string;
  project?: string;
  uses_project_defaults?: boolean;
  preset: string;
  config: Record<string, unknown>;
  start: boolean;
};
const NO_PROJECT = { project: "", uses_project_defaults: true };

export function useCreateRun() {
  return useMutation({
    mutationFn: (run: NewRun) => body(api.POST("/api/v1/runs", { body: { kind: "fleet", lenient: false, ...NO_PROJECT, ...run } })),
  });
}

/** Check a launch with its environments; nothing is stored. */
export function useCheckRun() {
  return useMutation({
    mutationFn: (run: Omit<NewRun, "start">): Promise<RunCheck> =>
      body(api.POST("/api/v1/run-checks", { body: { ...NO_PROJECT, fields_only: false, ...run } })),
  });
}

/** Check the fields of a launch, given as JSON, without its environments. */
export function checkQuery(launch: string) {
  return queryOptions({
    queryKey: ["run-check", launch],
    queryFn: (): Promise<RunCheck> =>
      body(api.POST("/api/v1/run-checks", { body: { ...NO_PROJECT, ...JSON.parse(launch), fields_only: true } })),
    gcTime: 0,
    retry: false,
  });
}

export function runQuery(name: string) {
  return queryOptions({
    queryKey: ["run", name],
    queryFn: (): Promise<RunDetail> => body(api.GET("/api/v1/runs/{run}", { params: { path: { run: name } } })),
    // Data that the router prefetched is not fetched again on mount.
    staleTime: 3_000,
    retry: false,
  });
}

type NewSize = { workers: number; reason: string };

/** Request a number of workers; the run's next state arrives over the live page. */
export function useResize(name: string) {
  return useMutation({
    mutationFn: ({ workers, reason }: NewSize): Promise<RunDetail> =>
      body(api.PATCH("/api/v1/runs/{run}", { params: { path: { run: name } }, body: { num_workers: workers, reason } })),
  });
}

/** Archive an outside run and start a new one under its name. */
export function useReset(name: string) {
  return useMutation({
    mutationFn: (reason: string): Promise<RunDetail> =>
      body(api.POST("/api/v1/runs/{run}/reset", { params: { path: { run: name } }, body: { reason } })),
  });
}

export function deletionQuery(address: string) {
  return queryOptions({
    queryKey: ["deletion", address],
    queryFn: () => body(api.GET("/api/v1/runs/{run}/deletion", { params: { path: { run: address } } })),
    gcTime: 0,
  });
}

/** Delete a run with all its data. */
export function useDeleteRun(address: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (reason: string) => body(api.DELETE("/api/v1/runs/{run}", { params: { path: { run: address }, query: { reason } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["runs"] }),
  });
}

export type Asked = { verb: RunVerb; reason: string };

export function useAsk(name: string) {
  return useMutation({
    mutationFn: ({ verb, reason }: Asked): Promise<RunDetail> =>
      body(api.POST(`/api/v1/runs/{run}/${verb}`, { params: { path: { run: name } }, body: { reason } })),
  });
}

/** Limits on staleness and lease duration; null means no limit. */
export type NewLimits = {
  off_policy_tolerance?: number;
  max_staleness?: number | null;
  lease_seconds?: number;
  on_second_registration?: "keep" | "reset";
  reason: string;
};

/** Change limits of an active run; they apply from the next push and the next batch. */
export function useChangeLimits(name: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (limits: NewLimits): Promise<RunDetail> =>
      body(api.PATCH("/api/v1/runs/{run}", { params: { path: { run: name } }, body: limits })),
    onSettled: () => queries.invalidateQueries({ queryKey: ["queue", name] }),
  });
}

export type ChangeRun = components["schemas"]["PatchedChangeRunRequest"];

/** Change settings of a run; the change history is refetched. */
export function useChangeRun(name: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (change: ChangeRun): Promise<RunDetail> =>
      body(api.PATCH("/api/v1/runs/{run}", { params: { path: { run: name } }, body: change })),
    onSettled: () => Promise.all(["queue", "changes"].map((key) => queries.invalidateQueries({ queryKey: [key, name] }))),
  });
}

/** Replace the tags of a run. */
export function useSetTags(name: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (wanted: { tags: string[]; reason: string }): Promise<RunDetail> =>
      body(api.PUT("/api/v1/runs/{run}/tags", { params: { path: { run: name } }, body: wanted })),
    onSettled: () => queries.invalidateQueries({ queryKey: ["run-filter", "values", "tag"] }),
  });
}
