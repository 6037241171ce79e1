/** Pick the runs that somebody should look at, and put them behind the alerts. Pure. */

import type { AlertRow } from "@/api/alerts";
import { ageSeconds, duration } from "@/format";
import type { ShownRun } from "@/pages/runs/columns";
import { honest, RUN_PROOF_SECONDS } from "@/theme/chips";

/** A pause that lasts longer was perhaps forgotten. */
const PAUSED_LONG_SECONDS = 30 * 60;

export type Concern = { run: ShownRun; why: string };

/** Runs of which no open alert speaks, and that are unknown or paused for long; the longest first. */
export function concerns(runs: ShownRun[], alerts: Pick<AlertRow, "run">[], nowMs: number): Concern[] {
  const spokenOf = new Set(alerts.map(({ run }) => run));
  return runs
    .filter(({ name }) => !spokenOf.has(name))
    .flatMap((run) => {
      const why = concern(run, nowMs);
      return why ? [{ run, why }] : [];
    })
    .sort((a, b) => Date.parse(a.run.status_changed_at) - Date.parse(b.run.status_changed_at));
}

function concern(run: ShownRun, nowMs: number): string {
  const proof = ageSeconds(run.observed_at, nowMs);
  if (run.kind !== "outside" && honest(run.status, proof, RUN_PROOF_SECONDS) === "unknown") {
    return `its fleet was last heard ${duration(proof)} ago${run.fleet_reason ? `: ${run.fleet_reason}` : ""}`;
  }
  const held = ageSeconds(run.status_changed_at, nowMs) ?? 0;
  if (run.status !== "paused" || held < PAUSED_LONG_SECONDS) return "";
  return `paused for ${duration(held)}${run.status_reason ? `: ${run.status_reason}` : ", without a reason"}`;
}

/** One's own runs before those of others; within each, as they were. */
export function mineFirst<T extends { created_by: string | null }>(runs: T[], me: string | undefined): T[] {
  return [...runs.filter(({ created_by }) => created_by === me), ...runs.filter(({ created_by }) => created_by !== me)];
}

/** How many runs there are, where a list shows some of the first so many that were read of it. */
export function inAll({ shown, read, total }: { shown: number; read: number; total: number }): number {
  return shown + Math.max(0, total - read);
}

/** The part of the planned train steps that is served, from 0 to 1; null where nothing is planned. */
export function progress(run: { served_steps: number; num_steps: number }): number | null {
  return run.num_steps > 0 ? Math.min(1, run.served_steps / run.num_steps) : null;
}
