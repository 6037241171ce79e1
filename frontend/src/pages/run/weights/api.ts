/** API queries and mutations for published weights and their distribution to workers. */

import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, at, body, pagesOf, results } from "@/api/client";
import type { PolicyVersionRow, WeightSyncRow } from "@/api/types";

/** Minimum interval between reads of lists, however many weight events arrive. */
export const EVERY_MS = 3_000;
const VERSIONS_PER_PAGE = 50;

export const versionsQuery = (run: string) =>
  pagesOf(["versions", run], (cursor) =>
    body(api.GET("/api/v1/runs/{run}/weights", { params: { path: { run }, query: { limit: VERSIONS_PER_PAGE, cursor } } })),
  );

/** One version, of any age. */
export const versionQuery = (run: string, id: number, enabled: boolean) =>
  queryOptions({
    queryKey: ["version", run, id],
    queryFn: async (): Promise<PolicyVersionRow | null> =>
      (await results(api.GET("/api/v1/runs/{run}/weights", { params: { path: { run }, query: { id } } })))[0] ?? null,
    enabled,
  });

export const deliveriesQuery = (run: string) =>
  queryOptions({
    queryKey: ["deliveries", run],
    queryFn: (): Promise<WeightSyncRow[]> =>
      results(api.GET("/api/v1/runs/{run}/weights/syncs", { params: { path: { run }, query: { versions: VERSIONS_PER_PAGE } } })),
  });

/** The version that workers should use, and the orders about it. */
export const ordersQuery = (run: string) =>
  queryOptions({ queryKey: ["weights-orders", run], queryFn: () => body(api.GET("/api/v1/runs/{run}/weights/commands", at(run))) });

/** Pin the version of a step, or follow the newest again. */
export function usePin(run: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ step, reason }: { step: number | null; reason: string }) =>
      step === null
        ? body(api.POST("/api/v1/runs/{run}/weights/unpin", { ...at(run), body: { reason } }))
        : body(api.POST("/api/v1/runs/{run}/weights/pin", { ...at(run), body: { step, reason } })),
    onSuccess: (orders) => client.setQueryData(ordersQuery(run).queryKey, orders),
  });
}
