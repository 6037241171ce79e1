/** API queries for fleet logs and episode recordings. */

import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, ask, body } from "@/api/client";
import type { RecordingRow } from "@/api/types";

/** A worker and one of its env slots. A null worker is the manager or any worker; a null slot is any slot. */
export type FleetPlace = { worker: number | null; slot: number | null };

const FOLLOW_MS = 1500;
const PENDING_MS = 1500;
const SETTLED_MS = 20_000;

export function logQuery(run: string, { worker, slot }: FleetPlace, lines: number, follows: boolean) {
  const query = { worker: worker ?? undefined, slot: slot ?? undefined, lines };
  return ask(
    ["fleet-log", run, worker, slot, lines],
    () => api.GET("/api/v1/runs/{run}/fleet/logs", { params: { path: { run }, query } }),
    { refetchInterval: follows ? FOLLOW_MS : false, placeholderData: (shown) => shown, retry: false },
  );
}

/** Whether the list contains recordings that are still in progress. */
export function isPending(rows: readonly Pick<RecordingRow, "state">[] | undefined): boolean {
  return rows?.some(({ state }) => state === "requested" || state === "recording") ?? false;
}

export function recordingsQuery(run: string) {
  return queryOptions({
    queryKey: ["recordings", run],
    queryFn: async (): Promise<RecordingRow[]> => {
      const { results } = await body(api.GET("/api/v1/runs/{run}/recordings", { params: { path: { run } } }));
      return results;
    },
    refetchInterval: ({ state }) => (isPending(state.data) ? PENDING_MS : SETTLED_MS),
  });
}

export type Wanted = FleetPlace & { episodes: number; reason: string };

export function useRequestRecordings(run: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ worker, slot, episodes, reason }: Wanted) =>
      body(
        api.POST("/api/v1/runs/{run}/recordings", {
          params: { path: { run } },
          body: { worker, slot, episodes, environment: "", reason },
        }),
      ),
    onSettled: () => client.invalidateQueries({ queryKey: ["recordings", run] }),
  });
}

type Replaced = { worker: number; incarnation: string; reason: string };

export function useRestartWorker(run: string) {
  return useMutation({
    mutationFn: ({ worker, incarnation, reason }: Replaced) =>
      body(
        api.POST("/api/v1/runs/{run}/fleet/workers/{worker}/restart", {
          params: { path: { run, worker: String(worker) } },
          body: { incarnation, reason },
        }),
      ),
  });
}

type Kept = Replaced & { lifts: boolean };

export function useCordonWorker(run: string) {
  return useMutation({
    mutationFn: ({ worker, incarnation, reason, lifts }: Kept) => {
      const params = { path: { run, worker: String(worker) } };
      return lifts
        ? body(api.POST("/api/v1/runs/{run}/fleet/workers/{worker}/uncordon", { params, body: { reason } }))
        : body(api.POST("/api/v1/runs/{run}/fleet/workers/{worker}/cordon", { params, body: { incarnation, reason } }));
    },
  });
}

export function recordingUrl(run: string, recording: string): string {
  return `/api/v1/runs/${encodeURIComponent(run)}/recordings/${encodeURIComponent(recording)}/content`;
}
