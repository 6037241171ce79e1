/** Know what is wrong, and say that somebody is at it or that it is over. */

import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";
import { usePart } from "@/live/live";

type Schemas = components["schemas"];
export type AlertRow = Schemas["AlertRow"];
export type AlertDetail = Schemas["AlertDetail"];
export type AlertDelivery = Schemas["AlertDeliveryRow"];
export type AlertSummary = Schemas["AlertSummary"];
export type AlertKind = AlertRow["kind"];
export type Severity = AlertRow["severity"];

export const STATES = ["unresolved", "open", "acknowledged", "silenced", "resolved", "all"] as const;
export type AskedState = (typeof STATES)[number];
export type AskedAlerts = { state?: AskedState; severity?: Severity; kind?: AlertKind; run?: string; text?: string };

/** What each kind is called; the type holds this to the server's list. */
export const KINDS: Record<AlertKind, string> = {
  run_failed: "A run failed",
  run_not_starting: "A run does not start",
  run_stalled: "No new data",
  training_stalled: "No batches leased",
  stale_drops: "Much data dropped as stale",
  fleet_silent: "No heartbeats from a fleet",
  workers_down: "Workers are down",
  lesson_stalled: "A lesson does not improve",
  lesson_regressed: "A lesson got worse",
  lease_lapsed: "A lease expired",
  batch_quarantined: "A batch is quarantined",
  items_corrupt: "Stored bytes are corrupt",
  ledger_unbalanced: "A ledger does not balance",
  pushes_refused: "Pushes are refused",
  queue_full: "A queue is full",
  disk_low: "The disk is nearly full",
  rule: "A rule of people",
};

const REREAD_MS = 5_000;
const PAGE_ROWS = 50;

export function alertsQuery(asked: AskedAlerts) {
  return infiniteQueryOptions({
    queryKey: ["alerts", "list", asked],
    queryFn: ({ pageParam }) =>
      body(api.GET("/api/alerts", { params: { query: { ...asked, limit: PAGE_ROWS, before: pageParam ?? undefined } } })),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next_before ?? undefined,
    refetchInterval: REREAD_MS,
    placeholderData: (before) => before,
  });
}

export function alertQuery(id: number) {
  return queryOptions({
    queryKey: ["alerts", "one", id],
    queryFn: () => body(api.GET("/api/alerts/{alert}", { params: { path: { alert: String(id) } } })),
    refetchInterval: REREAD_MS,
  });
}

/** How much needs attention, as it is now; undefined until it is known. */
export function useAlertSummary(): AlertSummary | undefined {
  return usePart("alerts", "alerts");
}

export type Deed = { id: number; verb: "acknowledge" | "resolve"; reason: string };

export function useDeed() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ id, verb, reason }: Deed) => {
      const sent = { params: { path: { alert: String(id) } }, body: { reason } };
      return verb === "acknowledge"
        ? body(api.POST("/api/alerts/{alert}/acknowledge", sent))
        : body(api.POST("/api/alerts/{alert}/resolve", sent));
    },
    onSuccess: (alert) => queries.setQueryData(alertQuery(alert.id).queryKey, alert),
    onSettled: () => queries.invalidateQueries({ queryKey: ["alerts"] }),
  });
}
