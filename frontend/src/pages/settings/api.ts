/** API queries and mutations for the webhooks that receive alerts. */

import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type Webhook = Schemas["WebhookRow"];

const REREAD_MS = 10_000;
/** Polling interval while the user waits for a result. */
const WAITING_MS = 700;

export const webhooksQuery = queryOptions({
  queryKey: ["webhooks"],
  queryFn: async () => (await body(api.GET("/api/v1/webhooks"))).results,
  refetchInterval: ({ state }) => (state.data?.some(({ last_test }) => last_test?.state === "waiting") ? WAITING_MS : REREAD_MS),
});

/** Send a test alert to a webhook. */
export function useWebhookTest() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ webhook, reason }: { webhook: string; reason: string }) =>
      body(api.POST("/api/v1/webhooks/{webhook}/test", { params: { path: { webhook } }, body: { reason } })),
    onSettled: () => queries.invalidateQueries({ queryKey: webhooksQuery.queryKey }),
  });
}
