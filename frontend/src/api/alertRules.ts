/** API queries and mutations for alert rules and snoozes. */

import { queryOptions } from "@tanstack/react-query";
import { useChange } from "@/api/changes";
import { api, body, results } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type AlertRule = Schemas["AlertRuleRow"];
export type SetAlertRule = Schemas["SetAlertRuleRequest"];
export type Snooze = Schemas["SnoozeRow"];
/** An alert or a rule, by id. */
export type SnoozeSubject = { alert: number } | { rule: number };
export type Comparator = AlertRule["comparator"];

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

const RULES = ["alert-rules"];
const SNOOZES = ["alert-snoozes"];
const REREAD_RULES_MS = 5_000;

export const rulesQuery = queryOptions({
  queryKey: RULES,
  queryFn: () => body(api.GET("/api/v1/alerts/rules")),
  refetchInterval: REREAD_RULES_MS,
});

export const snoozesQuery = queryOptions({
  queryKey: SNOOZES,
  queryFn: () => results(api.GET("/api/v1/alerts/snoozes")),
  refetchInterval: REREAD_RULES_MS,
});

const useRuleChange = <Wanted, Changed>(change: (wanted: Wanted) => Promise<Changed>) => useChange(RULES, change, SNOOZES, ["alerts"]);

/** Create a rule, or replace an existing one. */
export const useSetRule = (id: number | null) =>
  useRuleChange(
    (rule: SetAlertRule): Promise<AlertRule> =>
      id === null
        ? body(api.POST("/api/v1/alerts/rules", { body: rule }))
        : body(api.PUT("/api/v1/alerts/rules/{rule}", { params: { path: { rule: String(id) } }, body: rule })),
  );

export const useDeleteRule = (id: number) =>
  useRuleChange((reason: string) =>
    body(api.DELETE("/api/v1/alerts/rules/{rule}", { params: { path: { rule: String(id) }, query: { reason } } })),
  );

export const useSnooze = () =>
  useRuleChange((snooze: SnoozeSubject & { until: string | null; reason: string }) =>
    body(api.POST("/api/v1/alerts/snoozes", { body: { alert: null, rule: null, ...snooze } })),
  );

export const useEndSnooze = (id: number) =>
  useRuleChange((reason: string) =>
    body(api.DELETE("/api/v1/alerts/snoozes/{snooze}", { params: { path: { snooze: String(id) }, query: { reason } } })),
  );
