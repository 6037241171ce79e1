/** Select the runs that need attention beside the open alerts. Pure. */

import type { AlertGroup } from "@/api/alerts";
import type { RunRow } from "@/api/types";
import { ageSeconds, duration } from "@/format";
import { honest, RUN_PROOF_SECONDS } from "@/theme/chips";

/** A longer pause may be unintended. */
const PAUSED_LONG_SECONDS = 30 * 60;

export type Concern = { run: RunRow; why: string };

/** Runs without an open alert that are unknown or paused for long; the longest first. */
export function concerns(runs: RunRow[], alerts: Pick<AlertGroup, "runs">[], nowMs: number): Concern[] {
  const alerted = new Set(alerts.flatMap((group) => group.runs));
  return runs
    .filter(({ name }) => !alerted.has(name))
    .flatMap((run) => {
      const why = concern(run, nowMs);
      return why ? [{ run, why }] : [];
    })
    .sort((a, b) => Date.parse(a.run.status_changed_at) - Date.parse(b.run.status_changed_at));
}

function concern(run: RunRow, nowMs: number): string {
  const proof = ageSeconds(run.observed_at, nowMs);
  if (run.kind !== "outside" && honest(run.status, proof, RUN_PROOF_SECONDS) === "unknown") {
    return `last fleet heartbeat ${duration(proof)} ago${run.fleet_reason ? `: ${run.fleet_reason}` : ""}`;
  }
  const held = ageSeconds(run.status_changed_at, nowMs) ?? 0;
  if (run.status !== "paused" || held < PAUSED_LONG_SECONDS) return "";
  return `paused for ${duration(held)}${run.status_reason ? `: ${run.status_reason}` : ", no reason given"}`;
}
