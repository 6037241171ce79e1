/** API queries and mutations for published weights and their distribution to workers. */

import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, ask, body } from "@/api/client";
import type { PolicyVersionRow, WeightSyncRow } from "@/api/types";

/** Minimum interval between reads of lists, however many weight events arrive. */
export const EVERY_MS = 3_000;
const VERSIONS_PER_PAGE = 50;
const EVENTS_PER_PAGE = 100;

export function versionsQuery(run: string) {
  return infiniteQueryOptions({
    queryKey: ["versions", run],
    queryFn: ({ pageParam }) => {
      const query = { limit: VERSIONS_PER_PAGE, cursor: pageParam || undefined };
      return body(api.GET("/api/v1/runs/{run}/weights", { params: { path: { run }, query } }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
  });
}

/** One version, of any age. */
export function versionQuery(run: string, id: number, isWanted: boolean) {
  return queryOptions({
    queryKey: ["version", run, id],
    queryFn: async (): Promise<PolicyVersionRow | null> => {
      const { results } = await body(api.GET("/api/v1/runs/{run}/weights", { params: { path: { run }, query: { id } } }));
      return results[0] ?? null;
    },
    enabled: isWanted,
  });
}

export function deliveriesQuery(run: string) {
  return queryOptions({
    queryKey: ["deliveries", run],
    queryFn: async (): Promise<WeightSyncRow[]> =>
      (await body(api.GET("/api/v1/runs/{run}/weights/syncs", { params: { path: { run }, query: { versions: VERSIONS_PER_PAGE } } })))
        .results,
  });
}

/** The version that workers should use, and the orders about it. */
export function ordersQuery(run: string) {
  return ask(["weights-orders", run], () => api.GET("/api/v1/runs/{run}/weights/commands", { params: { path: { run } } }));
}

export type WeightsCommand = {
  verb: "pin" | "unpin" | "sync";
  /** The version to pin. */
  step?: number;
  reason: string;
};

/** Pin a version, follow the newest again, or reload weights. */
export function useOrderWeights(run: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (order: WeightsCommand) => {
      const { reason } = order;
      const params = { path: { run } };
      if (order.verb === "pin")
        return body(api.POST("/api/v1/runs/{run}/weights/pin", { params, body: { step: order.step ?? 0, reason } }));
      if (order.verb === "unpin") return body(api.POST("/api/v1/runs/{run}/weights/unpin", { params, body: { reason } }));
      return body(api.POST("/api/v1/runs/{run}/weights/sync", { params, body: { reason } }));
    },
    onSuccess: (orders) => client.setQueryData(["weights-orders", run], orders),
  });
}

/** Changes of a run by users and components, newest first, paginated. */
export function changesQuery(run: string, kinds: string[]) {
  return infiniteQueryOptions({
    queryKey: ["changes", run, kinds],
    queryFn: ({ pageParam }) => {
      const query = { limit: EVENTS_PER_PAGE, cursor: pageParam || undefined, kinds: kinds.join(",") };
      return body(api.GET("/api/v1/runs/{run}/events", { params: { path: { run }, query } }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
  });
}
