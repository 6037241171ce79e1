/** Say what became of everything a run accepted. Pure. */

import type { LedgerCounts } from "@/api/types";

export type Fate = { name: "served" | "leased" | "queued" | "waiting" | "quarantined" | "dropped"; count: number; meaning: string };

/** The fates of what was accepted; every item has exactly one. */
export function fatesOf(counts: LedgerCounts): Fate[] {
  const dropped = Object.values(counts.dropped).reduce((sum, n) => sum + n, 0);
  return [
    { name: "served", count: counts.served, meaning: "Trained on: the trainer confirmed their batch." },
    {
      name: "leased",
      count: counts.leased,
      meaning: "In a batch that a trainer holds, or whose lease expired and that is leased again first.",
    },
    { name: "queued", count: counts.queued, meaning: "Ready to go into a batch." },
    { name: "waiting", count: counts.waiting, meaning: "Kept until enough of their kind have come." },
    ...quarantine(counts.quarantined),
    { name: "dropped", count: dropped, meaning: "Not served, each for a reason that is counted." },
  ];
}

/** A fate that is shown only when something has it: it asks a person to decide. */
function quarantine(count: number): Fate[] {
  const meaning = "In a batch whose lease ran out again and again: release or discard it.";
  return count > 0 ? [{ name: "quarantined", count, meaning }] : [];
}

/** How many accepted items have no fate; anything but zero is a bug of ours, and shown. */
export function missing(counts: LedgerCounts): number {
  return counts.accepted - fatesOf(counts).reduce((sum, fate) => sum + fate.count, 0);
}
