/** API queries and mutations for the data of a run: queue, batches, environments, data flow. */

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, ask, askRows, at, body, pagesOf, useChange } from "@/api/client";
import type { components } from "@/api/schema";
import type { BatchRow, EnvironmentMixing, EnvironmentRow } from "@/api/types";

/** Minimum interval between reads of the queue; lists beside it refresh less often. */
export const QUEUE_MS = 2_000;
export const BESIDE_MS = 5_000;

/** The queue, the ledger and the next batch at one moment. */
export const queueQuery = (run: string) =>
  ask(["queue", run], () => api.GET("/api/v1/runs/{run}/queue", at(run)), { placeholderData: keepPreviousData });

export type BatchState = BatchRow["state"];

export const batchesQuery = (run: string, state: BatchState | undefined) =>
  pagesOf(["batches", run, state ?? ""], (cursor) =>
    body(api.GET("/api/v1/runs/{run}/batches", { params: { path: { run }, query: { limit: 50, state, cursor } } })),
  );

export const batchQuery = (run: string, batch: string) =>
  ask(["batch", run, batch], () => api.GET("/api/v1/runs/{run}/batches/{batch}/items", { params: { path: { run, batch } } }), {
    retry: false,
  });

export type Decision = { batch: string; verb: "release" | "discard"; reason: string };

export const useDecide = (run: string) =>
  useChange(
    ["batch", run],
    ({ batch, verb, reason }: Decision): Promise<BatchRow> =>
      body(api.POST(`/api/v1/runs/{run}/batches/{batch}/${verb}`, { params: { path: { run, batch } }, body: { reason } })),
    ["batches", run],
    ["queue", run],
  );

export const environmentsQuery = (run: string) => askRows(["environments", run], () => api.GET("/api/v1/runs/{run}/environments", at(run)));

export const mixingQuery = (run: string) =>
  queryOptions({
    queryKey: ["mixing", run],
    queryFn: async (): Promise<EnvironmentMixing[]> => (await body(api.GET("/api/v1/runs/{run}/mixing", at(run)))).environments,
  });

export const ledgerQuery = (run: string) => ask(["ledger", run], () => api.GET("/api/v1/runs/{run}/ledger", at(run)));

/** Groups that each environment pushed within the last minute. */
export const arrivalsQuery = (run: string) =>
  askRows(["arrivals", run], () => api.GET("/api/v1/runs/{run}/environments/push-rates", at(run)));

export type EnvironmentChange = { weight: number } | { connected: boolean } | { muted: boolean };

/** Change an environment: its weight in batches, whether it counts as connected, or whether its groups are used for training. */
export const useChangeEnvironment = (run: string) =>
  useChange(
    ["environments", run],
    ({ env_id, ...change }: EnvironmentChange & { env_id: number; reason: string }): Promise<EnvironmentRow> =>
      body(api.PATCH("/api/v1/runs/{run}/environments/{env_id}", { params: { path: { run, env_id: String(env_id) } }, body: change })),
    ["mixing", run],
  );

export type Pipeline = components["schemas"]["Pipeline"];
export type PipelineStage = components["schemas"]["PipelineStage"];
export type Diagnosis = components["schemas"]["PipelineDiagnosis"];
export type StageName = PipelineStage["name"];

export const pipelineQuery = (run: string) =>
  ask(["pipeline", run], () => api.GET("/api/v1/runs/{run}/pipeline", at(run)), { placeholderData: keepPreviousData });
