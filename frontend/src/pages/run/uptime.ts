/** Format the uptime of a run. Pure. */

import type { RunSummary } from "@/api/types";
import { duration } from "@/format";
import { isOver } from "@/theme/chips";

type RunTimes = Pick<RunSummary, "status" | "started_at" | "status_changed_at">;

/** Time since the last start, including pauses and fleet restarts; null if never started. */
export function uptimeText(run: RunTimes, nowMs: number): string | null {
  if (!run.started_at) return null;
  const began = Date.parse(run.started_at);
  if (isOver(run.status)) return `ran for ${duration((Date.parse(run.status_changed_at) - began) / 1000)}`;
  return `up ${duration((nowMs - began) / 1000)}`;
}
