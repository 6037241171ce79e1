/** API queries and mutations for alert rules and snoozes. */

import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type AlertRule = Schemas["AlertRuleRow"];
export type SetAlertRule = Schemas["SetAlertRuleRequest"];
export type Snooze = Schemas["SnoozeRow"];
/** An alert or a rule, by id. */
export type SnoozeSubject = { alert: number } | { rule: number };
export type Comparator = AlertRule["comparator"];

/** UI labels of the comparators; the type keeps the keys in line with the server's enum. */
export const COMPARATORS: Record<Comparator, string> = {
  above: "is above",
  at_least: "is at least",
  below: "is below",
  at_most: "is at most",
  not_finite: "is not finite (NaN, ∞)",
  no_data: "has no data",
};

/** Whether a comparator needs a threshold. */
export const isCompared = (comparator: Comparator): boolean => comparator !== "not_finite" && comparator !== "no_data";

const REREAD_MS = 5_000;

export const rulesQuery = queryOptions({
  queryKey: ["alert-rules"],
  queryFn: () => body(api.GET("/api/v1/alerts/rules")),
  refetchInterval: REREAD_MS,
});

export const snoozesQuery = queryOptions({
  queryKey: ["alert-snoozes"],
  queryFn: async () => (await body(api.GET("/api/v1/alerts/snoozes"))).results,
  refetchInterval: REREAD_MS,
});

/** A rule that is not saved yet, with its scope. */
export type Draft = {
  metric: string;
  comparator: Comparator;
  threshold: number | null;
  for_seconds: number;
  run: string | null;
  filter: string;
};

function useAlertsChanged() {
  const queries = useQueryClient();
  return () => Promise.all(["alert-rules", "alert-snoozes", "alerts"].map((key) => queries.invalidateQueries({ queryKey: [key] })));
}

/** Create a rule, or replace an existing one. */
export function useSetRule(id: number | null) {
  return useMutation({
    mutationFn: (rule: SetAlertRule): Promise<AlertRule> =>
      id === null
        ? body(api.POST("/api/v1/alerts/rules", { body: rule }))
        : body(api.PUT("/api/v1/alerts/rules/{rule}", { params: { path: { rule: String(id) } }, body: rule })),
    onSettled: useAlertsChanged(),
  });
}

export function useDeleteRule(id: number) {
  return useMutation({
    mutationFn: (reason: string) =>
      body(api.DELETE("/api/v1/alerts/rules/{rule}", { params: { path: { rule: String(id) }, query: { reason } } })),
    onSettled: useAlertsChanged(),
  });
}

export function useSnooze() {
  return useMutation({
    mutationFn: (snooze: SnoozeSubject & { until: string | null; reason: string }): Promise<Snooze> =>
      body(api.POST("/api/v1/alerts/snoozes", { body: { alert: null, rule: null, ...snooze } })),
    onSettled: useAlertsChanged(),
  });
}

export function useEndSnooze(id: number) {
  return useMutation({
    mutationFn: (reason: string) =>
      body(api.DELETE("/api/v1/alerts/snoozes/{snooze}", { params: { path: { snooze: String(id) }, query: { reason } } })),
    onSettled: useAlertsChanged(),
  });
}
