/** API queries and mutations for alerts: list, acknowledge, resolve. */

import { infiniteQueryOptions, queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";
import { usePart } from "@/live/live";

type Schemas = components["schemas"];
export type AlertRow = Schemas["AlertRow"];
export type AlertDetail = Schemas["AlertDetail"];
export type AlertDelivery = Schemas["AlertDeliveryRow"];
export type AlertSummary = Schemas["AlertSummary"];
export type AlertGroup = Schemas["AlertGroup"];
export type AlertKind = AlertRow["kind"];
export type Severity = AlertRow["severity"];

export const STATES = ["unresolved", "open", "acknowledged", "resolved", "all"] as const;
export type AskedState = (typeof STATES)[number];
export type AskedAlerts = { state?: AskedState; severity?: Severity; kind?: AlertKind; run?: string; text?: string };

const REREAD_MS = 5_000;
const PAGE_ROWS = 50;

export function alertsQuery(asked: AskedAlerts) {
  return infiniteQueryOptions({
    queryKey: ["alerts", "list", asked],
    queryFn: ({ pageParam }) =>
      body(api.GET("/api/v1/alerts", { params: { query: { ...asked, limit: PAGE_ROWS, cursor: pageParam || undefined } } })),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: REREAD_MS,
    placeholderData: (before) => before,
  });
}

const RUN_REREAD_MS = 15_000;

/** Alerts that the overview of a run lists; one more is requested, for the link to all of them. */
export const RUN_ALERTS_SHOWN = 3;

/** The newest unresolved alerts of a run. */
export function runAlertsQuery(run: string) {
  return queryOptions({
    queryKey: ["alerts", "run", run],
    queryFn: async () => (await body(api.GET("/api/v1/alerts", { params: { query: { run, limit: RUN_ALERTS_SHOWN + 1 } } }))).results,
    refetchInterval: RUN_REREAD_MS,
  });
}

/** The open alerts of a run. */
export function runOpenAlertsQuery(run: string) {
  return queryOptions({
    queryKey: ["alerts", "run", run, "open"],
    queryFn: async () => (await body(api.GET("/api/v1/alerts", { params: { query: { run, state: "open", limit: PAGE_ROWS } } }))).results,
    refetchInterval: RUN_REREAD_MS,
  });
}

export const alertKindsQuery = queryOptions({
  queryKey: ["alert-kinds"],
  queryFn: async () => (await body(api.GET("/api/v1/alerts/kinds"))).results,
  staleTime: Number.POSITIVE_INFINITY,
});

/** The kinds of alerts as options of a select. */
export function useAlertKinds(): { value: AlertKind; label: string }[] {
  return (useQuery(alertKindsQuery).data ?? []).map(({ kind, title }) => ({ value: kind, label: title }));
}

export function alertQuery(id: number) {
  return queryOptions({
    queryKey: ["alerts", "one", id],
    queryFn: () => body(api.GET("/api/v1/alerts/{alert}", { params: { path: { alert: String(id) } } })),
    refetchInterval: REREAD_MS,
  });
}

/** Current counts of open alerts; undefined until loaded. */
export function useAlertSummary(): AlertSummary | undefined {
  return usePart("alerts", "alerts");
}

export type AlertAction = { id: number; verb: "acknowledge" | "resolve"; reason: string; same_kind?: boolean };

export function useAlertAction() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ id, verb, reason, same_kind = false }: AlertAction) => {
      const params = { path: { alert: String(id) } };
      return verb === "acknowledge"
        ? body(api.POST("/api/v1/alerts/{alert}/acknowledge", { params, body: { reason, same_kind } }))
        : body(api.POST("/api/v1/alerts/{alert}/resolve", { params, body: { reason } }));
    },
    onSuccess: (alert) => queries.setQueryData(alertQuery(alert.id).queryKey, alert),
    onSettled: () => queries.invalidateQueries({ queryKey: ["alerts"] }),
  });
}
