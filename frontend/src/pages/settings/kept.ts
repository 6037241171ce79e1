/** Words for what the deck keeps and until when. */

import type { Kept } from "@/api/deck";
import { bytes, count, duration } from "@/format";

export const KEPT_NAMES: Record<Kept["what"], string> = {
  payloads: "Payloads of groups and fragments",
  weights: "Weights",
  recordings: "Recorded episodes",
  archives: "Archives",
  captures: "Calls of captured sessions",
  outcomes: "How tasks of lessons ended",
  alerts: "Alerts that are over",
  metrics: "Metrics",
};

const DAY_SECONDS = 86_400;

function bound({ value, unit }: Kept["limits"][number]): string {
  if (unit === "seconds") return `for ${duration(value)}`;
  if (unit === "days") return `for ${duration(value * DAY_SECONDS)}`;
  if (unit === "bytes") return `the newest ${bytes(value)}`;
  if (unit === "per_run") return `the newest ${count(value)} of each run`;
  return `the newest ${count(value)}`;
}

/** Until when it is kept: "for 7 d, the newest 50 GB"; what no limit lets go stays. */
export function keptWords(kept: Pick<Kept, "what" | "limits">): string {
  const bounds = kept.limits.filter((limit) => limit.value > 0).map(bound);
  if (bounds.length > 0) return bounds.join(", ");
  return kept.limits.length > 0 ? "until somebody deletes it" : "as long as its run";
}

/** The settings that say so, for whoever would change them. */
export const keptSettings = (kept: Pick<Kept, "limits">): string[] => kept.limits.map((limit) => limit.setting).filter(Boolean);

/** How full the tightest limit of bytes or items is, from 0 to 1; null where there is none. */
export function fullness(kept: Pick<Kept, "limits" | "size_bytes" | "count">): number | null {
  const shares = kept.limits.flatMap(({ unit, value }) => {
    if (value <= 0) return [];
    if (unit === "bytes") return [kept.size_bytes / value];
    return unit === "items" ? [kept.count / value] : [];
  });
  return shares.length > 0 ? Math.min(1, Math.max(...shares)) : null;
}
