/** API queries and mutations for the queue and the batches of a run. */

import { infiniteQueryOptions, keepPreviousData, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";
import type { BatchItems, BatchRow, EnvironmentMixing, EnvironmentPushRate, EnvironmentRow, LedgerAnswer, QueueAnswer } from "@/api/types";

/** Minimum interval between reads of the queue; lists beside it refresh less often. */
export const QUEUE_MS = 2_000;
export const BESIDE_MS = 5_000;
const BATCHES_PER_PAGE = 50;

const at = (run: string) => ({ params: { path: { run } } });

/** The queue, the ledger and the next batch at one moment. */
export function queueQuery(run: string) {
  return queryOptions({
    queryKey: ["queue", run],
    queryFn: (): Promise<QueueAnswer> => body(api.GET("/api/v1/runs/{run}/queue", at(run))),
    placeholderData: keepPreviousData,
  });
}

export type BatchState = BatchRow["state"];

export function batchesQuery(run: string, state: BatchState | undefined) {
  return infiniteQueryOptions({
    queryKey: ["batches", run, state ?? ""],
    queryFn: ({ pageParam }) => {
      const query = { limit: BATCHES_PER_PAGE, state, cursor: pageParam || undefined };
      return body(api.GET("/api/v1/runs/{run}/batches", { params: { path: { run }, query } }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
  });
}

export function batchQuery(run: string, batch: string) {
  return queryOptions({
    queryKey: ["batch", run, batch],
    queryFn: (): Promise<BatchItems> => body(api.GET("/api/v1/runs/{run}/batches/{batch}/items", { params: { path: { run, batch } } })),
    retry: false,
  });
}

export type Decision = { batch: string; verb: "release" | "discard"; reason: string };

export function useDecide(run: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ batch, verb, reason }: Decision): Promise<BatchRow> =>
      body(api.POST(`/api/v1/runs/{run}/batches/{batch}/${verb}`, { params: { path: { run, batch } }, body: { reason } })),
    onSettled: () => {
      for (const key of ["batch", "batches", "queue"]) void client.invalidateQueries({ queryKey: [key, run] });
    },
  });
}

export function environmentsQuery(run: string) {
  return queryOptions({
    queryKey: ["environments", run],
    queryFn: async (): Promise<EnvironmentRow[]> => (await body(api.GET("/api/v1/runs/{run}/environments", at(run)))).results,
  });
}

export function mixingQuery(run: string) {
  return queryOptions({
    queryKey: ["mixing", run],
    queryFn: async (): Promise<EnvironmentMixing[]> => (await body(api.GET("/api/v1/runs/{run}/mixing", at(run)))).environments,
  });
}

export function ledgerQuery(run: string) {
  return queryOptions({
    queryKey: ["ledger", run],
    queryFn: (): Promise<LedgerAnswer> => body(api.GET("/api/v1/runs/{run}/ledger", at(run))),
  });
}

/** Groups that each environment pushed within the last minute. */
export function arrivalsQuery(run: string) {
  return queryOptions({
    queryKey: ["arrivals", run],
    queryFn: async (): Promise<EnvironmentPushRate[]> =>
      (await body(api.GET("/api/v1/runs/{run}/environments/push-rates", at(run)))).results,
  });
}

type EnvironmentChange = components["schemas"]["PatchedChangeEnvironmentRequest"];
type AskedChange = EnvironmentChange & { envId: number };

/** Change one property of an environment, with a reason. */
function useEnvironmentChange<T extends AskedChange>(run: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (asked: T): Promise<EnvironmentRow> => {
      const { envId, ...change }: AskedChange = asked;
      return body(
        api.PATCH("/api/v1/runs/{run}/environments/{env_id}", { params: { path: { run, env_id: String(envId) } }, body: change }),
      );
    },
    onSettled: () => {
      for (const key of ["environments", "mixing"]) void client.invalidateQueries({ queryKey: [key, run] });
    },
  });
}

type Asked<T> = T & { envId: number; reason: string };

/** Set the environment's weight in batches. */
export const useReweigh = (run: string) => useEnvironmentChange<Asked<{ weight: number }>>(run);

/** Mark the environment as disconnected or connected. */
export const useConnect = (run: string) => useEnvironmentChange<Asked<{ connected: boolean }>>(run);

/** Mute or unmute the environment: whether its groups are used for training. */
export const useMute = (run: string) => useEnvironmentChange<Asked<{ muted: boolean }>>(run);
