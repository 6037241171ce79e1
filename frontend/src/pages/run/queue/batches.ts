/** Texts of batches and of the queue. Pure. */

import type { BatchRow, EnvironmentRow } from "@/api/types";

type BatchLook = { tone: string; sign: string; words: string };

export const LOOKS: Record<BatchRow["state"], BatchLook> = {
  leased: { tone: "busy", sign: "◷", words: "leased" },
  returned: { tone: "held", sign: "↺", words: "expired" },
  quarantined: { tone: "bad", sign: "✕", words: "quarantined" },
  confirmed: { tone: "good", sign: "✓", words: "acknowledged" },
  dropped: { tone: "quiet", sign: "–", words: "released" },
};

const isLapsed = (batch: Pick<BatchRow, "state" | "lease_expires_at">, nowMs: number): boolean =>
  batch.state === "leased" && Date.parse(batch.lease_expires_at) < nowMs;

/** The label of a batch; an expired lease is shown even before the server has processed it. */
export function lookOf(batch: Pick<BatchRow, "state" | "lease_expires_at">, nowMs: number): BatchLook {
  return isLapsed(batch, nowMs) ? { tone: "held", sign: "▲", words: "lease expired" } : LOOKS[batch.state];
}

/** Whether an operator may act on the batch because no trainer holds it. */
export function mayDecide(batch: Pick<BatchRow, "state" | "lease_expires_at">, nowMs: number): boolean {
  return batch.state === "quarantined" || batch.state === "returned" || isLapsed(batch, nowMs);
}

/** Seconds from lease to acknowledgement; null if never acknowledged. */
export function latencySeconds(batch: Pick<BatchRow, "state" | "leased_at" | "settled_at">): number | null {
  if (batch.state !== "confirmed" || !batch.settled_at) return null;
  return Math.max(0, (Date.parse(batch.settled_at) - Date.parse(batch.leased_at)) / 1000);
}

export type Bar = { versions: number; items: number; part: number };

/** Histogram of items by versions behind, ascending. */
export function stalenessBars(staleness: Record<string, number>): Bar[] {
  const total = Object.values(staleness).reduce((sum, items) => sum + items, 0);
  return Object.entries(staleness)
    .map(([versions, items]) => ({ versions: Number(versions), items, part: total ? items / total : 0 }))
    .sort((a, b) => a.versions - b.versions);
}

export type Names = Record<string, string>;

/** Environment names by the ids that batches of groups use. */
export function namesOf(environments: Pick<EnvironmentRow, "env_id" | "wandb_name">[] | undefined): Names {
  return Object.fromEntries((environments ?? []).map(({ env_id, wandb_name }) => [String(env_id), wandb_name]));
}

/** The environment's name in a composition, whose keys are ids for groups (-1: none) and names for fragments. */
export function nameIn(names: Names, key: string): string {
  return names[key] ?? (key === "-1" ? "without environment" : key);
}

/** A short composition text: the largest environments by name. */
export function compositionText(composition: Record<string, number>, names: Names = {}, most = 3): string {
  const parts = Object.entries(composition).sort(([, a], [, b]) => b - a);
  const shown = parts.slice(0, most).map(([name, items]) => `${nameIn(names, name)} ${items}`);
  return parts.length > most ? `${shown.join(", ")}, … ${parts.length - most} more` : shown.join(", ");
}
