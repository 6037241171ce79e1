/** Parse the changes in an event's details. Pure. */

import type { ChangeRun } from "@/api/runs";
import type { RunEvent } from "@/api/types";

export type Revision = { name: string; before: string; after: string };

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

function words(value: unknown): string {
  if (value === null || value === undefined) return "none";
  return typeof value === "string" ? value || "empty" : JSON.stringify(value);
}

/** The values that an event changed, before and after. */
export function revisionOf(event: Pick<RunEvent, "details">): Revision[] {
  return Object.entries(event.details).flatMap(([name, value]) =>
    isRecord(value) && "before" in value && "after" in value ? [{ name, before: words(value.before), after: words(value.after) }] : [],
  );
}

/** Settings that can be changed on an active run; the type keeps the keys in line with the API. */
const SETTINGS: Record<Exclude<keyof ChangeRun, "reason">, true> = {
  dry_deadline_seconds: true,
  max_staleness: true,
  max_age_seconds: true,
  off_policy_tolerance: true,
  exact_queue_size: true,
  lease_seconds: true,
  batch_size: true,
  lenient: true,
  advantages: true,
  drop_zero_variance: true,
  overlong_sequences: true,
  on_second_registration: true,
  num_steps: true,
  ends_at_num_steps: true,
  num_workers: true,
  project: true,
};

export type PutBack = { changes: ChangeRun; rows: Revision[] };

/** The changes that restore the settings after one event; null if nothing differs. `events` are newest first. */
export function backTo(events: readonly Pick<RunEvent, "kind" | "details">[], place: number): PutBack | null {
  const values = new Map<string, { now: unknown; then: unknown }>();
  for (const { kind, details } of events.slice(0, place)) {
    if (kind !== "settings_changed") continue;
    for (const [name, value] of Object.entries(details)) {
      if (!(name in SETTINGS) || !isRecord(value) || !("before" in value)) continue;
      const newer = values.get(name);
      values.set(name, { now: newer ? newer.now : value.after, then: value.before });
    }
  }
  const differing = [...values].filter(([, { now, then }]) => now !== then);
  if (differing.length === 0) return null;
  return {
    changes: Object.fromEntries(differing.map(([name, { then }]) => [name, then])) as ChangeRun,
    rows: differing.map(([name, { now, then }]) => ({ name, before: words(now), after: words(then) })),
  };
}
