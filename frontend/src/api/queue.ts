/** Read the queue and the batches of a run, and decide about batches that nobody holds. */

import { infiniteQueryOptions, keepPreviousData, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { BatchItems, BatchRow, EnvironmentMixing, EnvironmentRow, LedgerAnswer, PreviewAnswer, QueueAnswer } from "@/api/types";

const EVERY_MS = 2_000;
const SLOWER_MS = 5_000;
const BATCHES_PER_PAGE = 50;

const at = (run: string) => ({ params: { path: { run } } });

export function queueQuery(run: string) {
  return queryOptions({
    queryKey: ["queue", run],
    queryFn: (): Promise<QueueAnswer> => body(api.GET("/api/runs/{run}/queue", at(run))),
    refetchInterval: EVERY_MS,
    placeholderData: keepPreviousData,
  });
}

export function previewQuery(run: string, isShown: boolean) {
  return queryOptions({
    queryKey: ["preview", run],
    queryFn: (): Promise<PreviewAnswer> => body(api.GET("/api/runs/{run}/batches/preview", at(run))),
    refetchInterval: SLOWER_MS,
    enabled: isShown,
    retry: false,
  });
}

export type BatchState = BatchRow["state"];

export function batchesQuery(run: string, state: BatchState | undefined) {
  return infiniteQueryOptions({
    queryKey: ["batches", run, state ?? ""],
    queryFn: async ({ pageParam }): Promise<BatchRow[]> => {
      const query = { limit: BATCHES_PER_PAGE, state, before: pageParam };
      const { results } = await body(api.GET("/api/runs/{run}/batches", { params: { path: { run }, query } }));
      return results;
    },
    initialPageParam: undefined as number | undefined,
    getNextPageParam: (page: BatchRow[]) => (page.length < BATCHES_PER_PAGE ? undefined : page.at(-1)?.ordinal),
    refetchInterval: SLOWER_MS,
  });
}

export function batchQuery(run: string, batch: string) {
  return queryOptions({
    queryKey: ["batch", run, batch],
    queryFn: (): Promise<BatchItems> =>
      body(api.GET("/api/runs/{run}/batches/{batch}/items", { params: { path: { run, batch } } })),
    retry: false,
  });
}

export type Decision = { batch: string; verb: "release" | "discard"; reason: string };

export function useDecide(run: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ batch, verb, reason }: Decision): Promise<BatchRow> =>
      body(api.POST(`/api/runs/{run}/batches/{batch}/${verb}`, { params: { path: { run, batch } }, body: { reason } })),
    onSettled: () => {
      for (const key of ["batch", "batches", "queue"]) void client.invalidateQueries({ queryKey: [key, run] });
    },
  });
}

export function environmentsQuery(run: string) {
  return queryOptions({
    queryKey: ["environments", run],
    queryFn: async (): Promise<EnvironmentRow[]> => (await body(api.GET("/api/runs/{run}/environments", at(run)))).results,
    refetchInterval: SLOWER_MS,
  });
}

export function mixingQuery(run: string) {
  return queryOptions({
    queryKey: ["mixing", run],
    queryFn: async (): Promise<EnvironmentMixing[]> => (await body(api.GET("/api/runs/{run}/mixing", at(run)))).environments,
    refetchInterval: SLOWER_MS,
  });
}

export function ledgerQuery(run: string) {
  return queryOptions({
    queryKey: ["ledger", run],
    queryFn: (): Promise<LedgerAnswer> => body(api.GET("/api/runs/{run}/ledger", at(run))),
    refetchInterval: SLOWER_MS,
  });
}

export type NewWeight = { envId: number; weight: number; reason: string };

export type NewConnection = { envId: number; connected: boolean; reason: string };

/** Count an environment as gone, or as there again. */
export function useConnect(run: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ envId, connected, reason }: NewConnection): Promise<EnvironmentRow> =>
      body(
        api.PATCH("/api/runs/{run}/environments/{env_id}", {
          params: { path: { run, env_id: String(envId) } },
          body: { connected, reason },
        }),
      ),
    onSettled: () => {
      for (const key of ["environments", "mixing"]) void client.invalidateQueries({ queryKey: [key, run] });
    },
  });
}

export function useReweigh(run: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ envId, weight, reason }: NewWeight): Promise<EnvironmentRow> =>
      body(
        api.PATCH("/api/runs/{run}/environments/{env_id}", {
          params: { path: { run, env_id: String(envId) } },
          body: { weight, reason },
        }),
      ),
    onSettled: () => {
      for (const key of ["environments", "mixing"]) void client.invalidateQueries({ queryKey: [key, run] });
    },
  });
}
