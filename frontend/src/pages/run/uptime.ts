/** Say for how long a run goes, or went. Pure. */

import type { RunSummary } from "@/api/types";
import { duration } from "@/format";
import { isOver } from "@/theme/chips";

type Going = Pick<RunSummary, "status" | "started_at" | "status_changed_at">;

/** Since it was started the last time, pauses and restarts of its fleet included; null for one that never was. */
export function uptimeText(run: Going, nowMs: number): string | null {
  if (!run.started_at) return null;
  const began = Date.parse(run.started_at);
  if (isOver(run.status)) return `went for ${duration((Date.parse(run.status_changed_at) - began) / 1000)}`;
  return `up ${duration((nowMs - began) / 1000)}`;
}
