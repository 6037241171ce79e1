/** Labels and links of alerts. Pure. */

import type { AlertRow, AlertSummary } from "@/api/alerts";
import { counted } from "@/format";
import type { Look } from "@/theme/chips";

const OPEN: Record<AlertRow["severity"], Look> = {
  error: { tone: "bad", sign: "✕", meaning: "Data or time is being lost. Not acknowledged." },
  warning: { tone: "held", sign: "▲", meaning: "Needs attention before data or time is lost. Not acknowledged." },
};

/** The label and style of an alert: its severity while open, then its state. */
export function alertLook(alert: Pick<AlertRow, "severity" | "state"> & Partial<Pick<AlertRow, "is_snoozed">>): Look & { word: string } {
  if (alert.state === "open" && alert.is_snoozed)
    return { tone: "quiet", sign: "☾", meaning: `Still active (${alert.severity}); notifications are suspended.`, word: "snoozed" };
  if (alert.state === "open") return { ...OPEN[alert.severity], word: alert.severity };
  if (alert.state === "acknowledged") return { tone: "busy", sign: "◔", meaning: "Acknowledged; still active.", word: "acknowledged" };
  return { tone: "quiet", sign: "✓", meaning: "The condition has cleared, or a user resolved it.", word: "resolved" };
}

/** The dashboard URL of an alert's subject; null if it has no page. */
export function alertUrl(alert: Pick<AlertRow, "kind" | "run" | "subject"> & Partial<Pick<AlertRow, "metric">>): string | null {
  if (alert.kind === "jobs_down" || alert.kind === "part_exited") return "/cluster";
  if (!alert.run) return null;
  const run = `/runs/${encodeURIComponent(alert.run)}`;
  const subject = encodeURIComponent(alert.subject);
  switch (alert.kind) {
    case "batch_quarantined":
      return `${run}/queue?batch=${subject}`;
    case "lease_lapsed":
      return `${run}/queue?state=returned`;
    case "training_stalled":
    case "stale_drops":
    case "queue_full":
    case "items_corrupt":
      return `${run}/queue`;
    case "fleet_silent":
    case "workers_down":
    case "run_not_starting":
      return `${run}/fleet`;
    case "run_failed":
      return `${run}/logs`;
    case "lesson_stalled":
    case "lesson_regressed":
      return `${run}/curriculum?lesson=${subject}`;
    case "rule":
      return `${run}/metrics?pin=${encodeURIComponent(alert.metric ?? "")}&x=time`;
    default:
      return run;
  }
}

/** Accessible text of the alert bell. */
export function countsText({ errors, warnings }: Pick<AlertSummary, "errors" | "warnings">): string {
  const parts = [errors > 0 && counted(errors, "error"), warnings > 0 && counted(warnings, "warning")].filter(Boolean);
  return parts.length > 0 ? `Alerts: ${parts.join(", ")}` : "Alerts: none open";
}
