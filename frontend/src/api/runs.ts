/** API queries and mutations for runs. */

import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { useChange } from "@/api/changes";
import { api, at, body } from "@/api/client";
import type { components } from "@/api/schema";
import type { Preset, RunCheck, RunDetail, RunVerb } from "@/api/types";
import type { JsonSchema } from "@/forms/schema";

export type RunConfigSchema = { schema: JsonSchema; presets: Preset[] };

export const schemaQuery = queryOptions({
  queryKey: ["run-config-schema"],
  queryFn: async () => (await body(api.GET("/api/v1/run-config-schema"))) as unknown as RunConfigSchema,
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

export const useCreateRun = () =>
  useMutation({
    mutationFn: (run: NewRun) => body(api.POST("/api/v1/runs", { body: { kind: "fleet", lenient: false, ...NO_PROJECT, ...run } })),
  });

const check = (run: Omit<NewRun, "start">, fields_only: boolean): Promise<RunCheck> =>
  body(api.POST("/api/v1/run-checks", { body: { ...NO_PROJECT, ...run, fields_only } }));

/** Check a launch with its environments; nothing is stored. */
export const useCheckRun = () => useMutation({ mutationFn: (run: Omit<NewRun, "start">) => check(run, false) });

/** Check the fields of a launch, given as JSON, without its environments. */
export const checkQuery = (launch: string) =>
  queryOptions({ queryKey: ["run-check", launch], queryFn: () => check(JSON.parse(launch), true), gcTime: 0, retry: false });

export const runQuery = (name: string) =>
  queryOptions({
    queryKey: ["run", name],
    queryFn: (): Promise<RunDetail> => body(api.GET("/api/v1/runs/{run}", at(name))),
    // Data that the router prefetched is not fetched again on mount.
    staleTime: 3_000,
    retry: false,
  });

export type ChangeRun = components["schemas"]["PatchedChangeRunRequest"];
/** Limits on staleness and lease duration; null means no limit. */
export type NewLimits = Pick<ChangeRun, "off_policy_tolerance" | "max_staleness" | "lease_seconds" | "on_second_registration"> & {
  reason: string;
};

const patch = (name: string, change: ChangeRun): Promise<RunDetail> => body(api.PATCH("/api/v1/runs/{run}", { ...at(name), body: change }));

/** Request a number of workers; the run's next state arrives over the live page. */
export const useResize = (name: string) =>
  useMutation({ mutationFn: ({ workers, reason }: { workers: number; reason: string }) => patch(name, { num_workers: workers, reason }) });

/** Change limits of an active run; they apply from the next push and the next batch. */
export const useChangeLimits = (name: string) => useChange(["queue", name], (limits: NewLimits) => patch(name, limits));

/** Change settings of a run; the change history is refetched. */
export const useChangeRun = (name: string) => useChange(["queue", name], (change: ChangeRun) => patch(name, change), ["changes", name]);

/** Archive an outside run and start a new one under its name. */
export const useReset = (name: string) =>
  useMutation({
    mutationFn: (reason: string): Promise<RunDetail> => body(api.POST("/api/v1/runs/{run}/reset", { ...at(name), body: { reason } })),
  });

export const deletionQuery = (address: string) =>
  queryOptions({
    queryKey: ["deletion", address],
    queryFn: () => body(api.GET("/api/v1/runs/{run}/deletion", at(address))),
    gcTime: 0,
  });

/** Delete a run with all its data. */
export function useDeleteRun(address: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (reason: string) => body(api.DELETE("/api/v1/runs/{run}", { params: { path: { run: address }, query: { reason } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["runs"] }),
  });
}

export type Asked = { verb: RunVerb; reason: string };

export const useAsk = (name: string) =>
  useMutation({
    mutationFn: ({ verb, reason }: Asked): Promise<RunDetail> =>
      body(api.POST(`/api/v1/runs/{run}/${verb}`, { ...at(name), body: { reason } })),
  });

/** Replace the tags of a run. */
export const useSetTags = (name: string) =>
  useChange(
    ["run-filter", "values", "tag"],
    (wanted: { tags: string[]; reason: string }): Promise<RunDetail> =>
      body(api.PUT("/api/v1/runs/{run}/tags", { ...at(name), body: wanted })),
  );
