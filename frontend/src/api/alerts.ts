/** API queries and mutations for alerts, their rules and snoozes. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { api, ask, askRows, body, pagesOf, useChange } from "@/api/client";
import type { components } from "@/api/schema";
import { useChangeFeed, usePart } from "@/live/live";

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
/** Interval of what other people change, and of texts that the live summary does not have. */
const SLOW_MS = 60_000;
const PAGE_ROWS = 50;

const load = (query: AskedAlerts & { limit: number; cursor?: string }) => api.GET("/api/v1/alerts", { params: { query } });

export const alertsQuery = (asked: AskedAlerts) => ({
  ...pagesOf(["alerts", "list", asked], (cursor) => body(load({ ...asked, limit: PAGE_ROWS, cursor }))),
  placeholderData: <T>(before: T) => before,
});

/** Alerts that the overview of a run lists; one more is requested, for the link to all of them. */
export const RUN_ALERTS_SHOWN = 3;

/** The newest unresolved alerts of a run. */
export const runAlertsQuery = (run: string) =>
  askRows(["alerts", "run", run], () => load({ run, limit: RUN_ALERTS_SHOWN + 1 }), { refetchInterval: SLOW_MS });

export const runOpenAlertsQuery = (run: string) =>
  askRows(["alerts", "run", run, "open"], () => load({ run, state: "open", limit: PAGE_ROWS }), { refetchInterval: SLOW_MS });

const alertKindsQuery = askRows(["alert-kinds"], () => api.GET("/api/v1/alerts/kinds"), { staleTime: Number.POSITIVE_INFINITY });

/** The kinds of alerts as options of a select. */
export function useAlertKinds(): { value: AlertKind; label: string }[] {
  return (useQuery(alertKindsQuery).data ?? []).map(({ kind, title }) => ({ value: kind, label: title }));
}

export const alertQuery = (id: number) =>
  ask(["alerts", "one", id], () => api.GET("/api/v1/alerts/{alert}", { params: { path: { alert: String(id) } } }), {
    refetchInterval: SLOW_MS,
  });

/** Current counts of open alerts; undefined until loaded. */
export const useAlertSummary = (): AlertSummary | undefined => usePart("alerts", "alerts");

/** Refetch alerts when their live summary changes, or its part of one run; once on a page. Return the fallback interval. */
export function useAlertsRefresh(run?: string): number {
  const summary = useAlertSummary();
  const ofRun = summary && JSON.stringify(summary.groups.filter(({ runs }) => run !== undefined && runs.includes(run)));
  return useChangeFeed(run === undefined ? summary : ofRun, REREAD_MS, run === undefined ? ["alerts"] : ["alerts", "run", run]);
}

export type AlertAction = { id: number; verb: "acknowledge" | "resolve"; reason: string; same_kind?: boolean };

export function useAlertAction() {
  const queries = useQueryClient();
  return useChange(["alerts"], async ({ id, verb, reason, same_kind = false }: AlertAction) => {
    const params = { path: { alert: String(id) } };
    const alert = await (verb === "acknowledge"
      ? body(api.POST("/api/v1/alerts/{alert}/acknowledge", { params, body: { reason, same_kind } }))
      : body(api.POST("/api/v1/alerts/{alert}/resolve", { params, body: { reason } })));
    queries.setQueryData(alertQuery(alert.id).queryKey, alert);
    return alert;
  });
}

export type AlertRule = Schemas["AlertRuleRow"];
export type SetAlertRule = Schemas["SetAlertRuleRequest"];
export type Snooze = Schemas["SnoozeRow"];
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
export const rulesQuery = ask(RULES, () => api.GET("/api/v1/alerts/rules"), { refetchInterval: SLOW_MS });

export const snoozesQuery = askRows(SNOOZES, () => api.GET("/api/v1/alerts/snoozes"), { refetchInterval: SLOW_MS });

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
  useRuleChange((snooze: { alert: number; until: string | null; reason: string }) =>
    body(api.POST("/api/v1/alerts/snoozes", { body: { rule: null, ...snooze } })),
  );

export const useEndSnooze = (id: number) =>
  useRuleChange((reason: string) =>
    body(api.DELETE("/api/v1/alerts/snoozes/{snooze}", { params: { path: { snooze: String(id) }, query: { reason } } })),
  );
