/** API queries and mutations for alerts: list, acknowledge, resolve. */

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

/** UI labels of the alert kinds; the type keeps the keys in line with the server's enum. */
export const KINDS: Record<AlertKind, string> = {
  run_failed: "Run failed",
  run_not_starting: "Run does not start",
  run_stalled: "No new data",
  training_stalled: "No batches leased",
  stale_drops: "Many stale drops",
  fleet_silent: "Fleet silent",
  workers_down: "Workers down",
  lesson_stalled: "Lesson stalled",
  lesson_regressed: "Lesson regressed",
  lease_lapsed: "Lease expired",
  batch_quarantined: "Batch quarantined",
  items_corrupt: "Stored data corrupt",
  ledger_unbalanced: "Ledger does not balance",
  pushes_refused: "Pushes refused",
  queue_full: "Queue full",
  disk_low: "Disk almost full",
  rule: "Alert rule",
};

const REREAD_MS = 5_000;
const PAGE_ROWS = 50;

export function alertsQuery(asked: AskedAlerts) {
  return infiniteQueryOptions({
    queryKey: ["alerts", "list", asked],
    queryFn: ({ pageParam }) =>
      body(api.GET("/api/alerts", { params: { query: { ...asked, limit: PAGE_ROWS, cursor: pageParam || undefined } } })),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
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

/** Current counts of open alerts; undefined until loaded. */
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
