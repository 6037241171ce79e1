/** Parse the URL of the alerts page. Pure. */

import { type AlertKind, type AskedAlerts, STATES } from "@/api/alerts";

export const VIEWS = ["rules", "snoozed"] as const;

export type AlertsSearch = AskedAlerts & {
  /** The selected view; defaults to the alerts. */
  view?: (typeof VIEWS)[number];
  /** The rule open in its dialog. */
  rule?: number | "new";
  /** The alert open in the drawer. */
  alert?: number;
};

const text = (value: unknown): string | undefined =>
  typeof value === "string" || typeof value === "number" ? String(value) || undefined : undefined;

/** Parse search parameters; invalid values are dropped, unknown kinds are refused by the API. */
export function alertsSearch(search: Record<string, unknown>): AlertsSearch {
  const alert = Number(search.alert);
  const view = VIEWS.find((each) => each === search.view);
  const rule = Number(search.rule);
  return {
    state: STATES.find((state) => state === search.state && state !== "unresolved"),
    severity: search.severity === "error" || search.severity === "warning" ? search.severity : undefined,
    kind: text(search.kind) as AlertKind | undefined,
    run: text(search.run),
    text: text(search.text),
    view,
    rule: view !== "rules" ? undefined : search.rule === "new" ? "new" : Number.isSafeInteger(rule) && rule > 0 ? rule : undefined,
    alert: Number.isSafeInteger(alert) && alert > 0 ? alert : undefined,
  };
}
