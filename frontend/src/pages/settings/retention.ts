/** Texts about data retention. */

import type { Retention } from "@/api/deployment";
import { bytes, count, duration } from "@/format";

export const RETENTION_NAMES: Record<Retention["what"], string> = {
  payloads: "Payloads of groups and fragments",
  weights: "Weights",
  recordings: "Recorded episodes",
  archives: "Archives",
  captures: "Captured session calls",
  outcomes: "Outcomes of lesson tasks",
  alerts: "Resolved alerts",
  metrics: "Metrics",
};

const DAY_SECONDS = 86_400;

function bound({ value, unit }: Retention["limits"][number]): string {
  if (unit === "seconds") return `for ${duration(value)}`;
  if (unit === "days") return `for ${duration(value * DAY_SECONDS)}`;
  if (unit === "bytes") return `newest ${bytes(value)}`;
  if (unit === "per_run") return `newest ${count(value)} per run`;
  return `newest ${count(value)}`;
}

/** The retention limits as text: "for 7 d, newest 50 GB"; data without a limit is kept. */
export function retentionText(retention: Pick<Retention, "what" | "limits">): string {
  const bounds = retention.limits.filter((limit) => limit.value > 0).map(bound);
  if (bounds.length > 0) return bounds.join(", ");
  return retention.limits.length > 0 ? "until deleted manually" : "as long as the run";
}

/** Names of the settings that define the limits. */
export const retentionSettings = (retention: Pick<Retention, "limits">): string[] =>
  retention.limits.map((limit) => limit.setting).filter(Boolean);
