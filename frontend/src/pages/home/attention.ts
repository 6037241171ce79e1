/** Select the runs that need attention beside the open alerts. Pure. */

import type { AlertGroup } from "@/api/alerts";
import { ageSeconds, duration } from "@/format";
import type { ShownRun } from "@/pages/runs/rows";
import { honest, RUN_PROOF_SECONDS } from "@/theme/chips";

/** A longer pause may be unintended. */
const PAUSED_LONG_SECONDS = 30 * 60;

export type Concern = { run: ShownRun; why: string };

/** Runs without an open alert that are unknown or paused for long; the longest first. */
export function concerns(runs: ShownRun[], alerts: Pick<AlertGroup, "runs">[], nowMs: number): Concern[] {
  const alerted = new Set(alerts.flatMap((group) => group.runs));
  return runs
    .filter(({ name }) => !alerted.has(name))
    .flatMap((run) => {
      const why = concern(run, nowMs);
      return why ? [{ run, why }] : [];
    })
    .sort((a, b) => Date.parse(a.run.status_changed_at) - Date.parse(b.run.status_changed_at));
}

function concern(run: ShownRun, nowMs: number): string {
  const proof = ageSeconds(run.observed_at, nowMs);
  if (run.kind !== "outside" && honest(run.status, proof, RUN_PROOF_SECONDS) === "unknown") {
    return `last fleet heartbeat ${duration(proof)} ago${run.fleet_reason ? `: ${run.fleet_reason}` : ""}`;
  }
  const held = ageSeconds(run.status_changed_at, nowMs) ?? 0;
  if (run.status !== "paused" || held < PAUSED_LONG_SECONDS) return "";
  return `paused for ${duration(held)}${run.status_reason ? `: ${run.status_reason}` : ", no reason given"}`;
}

/** The user's own runs first, otherwise in the given order. */
export function mineFirst<T extends { created_by: string | null }>(runs: T[], me: string | undefined): T[] {
  return [...runs.filter(({ created_by }) => created_by === me), ...runs.filter(({ created_by }) => created_by !== me)];
}

/** The total number of runs in a list of which only some were loaded. */
export function inAll({ shown, read, total }: { shown: number; read: number; total: number }): number {
  return shown + Math.max(0, total - read);
}

/** The share of planned train steps that is served, 0 to 1; null if none are planned. */
export function progress(run: { served_steps: number; num_steps: number }): number | null {
  return run.num_steps > 0 ? Math.min(1, run.served_steps / run.num_steps) : null;
}
