/** Alerts as the server describes them. */

import type { AlertGroup, AlertRow, AlertSummary } from "@/api/alerts";

/** An open alert, with changes. */
export function alertOf(id: number, message: string, changes: Partial<AlertRow> = {}): AlertRow {
  const now = new Date().toISOString();
  return {
    id,
    kind: "items_corrupt",
    title: "Stored bytes are corrupt",
    advice: "Discard the batch.",
    severity: "warning",
    state: "open",
    run: null,
    run_uid: null,
    subject: "",
    metric: "",
    message,
    first_seen_at: now,
    last_seen_at: now,
    times_seen: 1,
    cleared_at: null,
    acknowledged_at: null,
    acknowledged_by: "",
    acknowledged_reason: "",
    is_snoozed: false,
    snoozed_until: null,
    resolved_at: null,
    resolved_by: "",
    resolved_reason: "",
    ...changes,
  };
}

/** An alert as an entry of a list, which stands for `count` alerts of its kind. */
export function groupOf(alert: AlertRow, count = 1): AlertGroup {
  return { ...alert, count, runs: alert.run ? [alert.run] : [] };
}

/** The counts of a server without open alerts, with changes. */
export function summaryOf(changes: Partial<AlertSummary> = {}): AlertSummary {
  return { errors: 0, warnings: 0, acknowledged: 0, snoozed: 0, newest: [], groups: [], ...changes };
}
