/** API queries and mutations for workers and episode recordings. */

import { queryOptions, useMutation } from "@tanstack/react-query";
import { api, at, body, results, useChange } from "@/api/client";
import type { RecordingRow } from "@/api/types";

const PENDING_MS = 1500;
const SETTLED_MS = 20_000;

/** Whether the list contains recordings that are still in progress. */
export function isPending(rows: readonly Pick<RecordingRow, "state">[] | undefined): boolean {
  return rows?.some(({ state }) => state === "requested" || state === "recording") ?? false;
}

export const recordingsQuery = (run: string) =>
  queryOptions({
    queryKey: ["recordings", run],
    queryFn: (): Promise<RecordingRow[]> => results(api.GET("/api/v1/runs/{run}/recordings", at(run))),
    refetchInterval: ({ state }) => (isPending(state.data) ? PENDING_MS : SETTLED_MS),
  });

/** Record the next episodes of a worker, or of any. */
export const useRequestRecordings = (run: string) =>
  useChange(["recordings", run], (wanted: { worker: number | null; episodes: number; reason: string }) =>
    body(api.POST("/api/v1/runs/{run}/recordings", { ...at(run), body: { slot: null, environment: "", ...wanted } })),
  );

export type WorkerVerb = "replace" | "drain" | "uncordon";
type Order = { verb: WorkerVerb; worker: number; incarnation: string; reason: string };

/** Replace a worker, cordon its place, or lift the cordon. */
export const useWorkerOrder = (run: string) =>
  useMutation({
    mutationFn: async ({ verb, worker, incarnation, reason }: Order): Promise<unknown> => {
      const params = { path: { run, worker: String(worker) } };
      if (verb === "uncordon") return body(api.POST("/api/v1/runs/{run}/fleet/workers/{worker}/uncordon", { params, body: { reason } }));
      const act = verb === "replace" ? "restart" : "cordon";
      return body(api.POST(`/api/v1/runs/{run}/fleet/workers/{worker}/${act}`, { params, body: { incarnation, reason } }));
    },
  });

export const recordingUrl = (run: string, recording: string): string =>
  `/api/v1/runs/${encodeURIComponent(run)}/recordings/${encodeURIComponent(recording)}/content`;
