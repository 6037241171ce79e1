/** Ledger states of accepted items. Pure. */

import type { LedgerCounts } from "@/api/types";
import { striped } from "@/components/Lanes";
import { counted } from "@/format";

export type ItemState = {
  name: "served" | "leased" | "expired" | "queued" | "waiting" | "quarantined" | "dropped";
  count: number;
  meaning: string;
};

/** The fill of each state; striped where the items wait. */
export const ITEM_FILLS: Record<ItemState["name"], string> = {
  served: "var(--chart-3)",
  leased: "var(--chart-4)",
  expired: striped("var(--chart-4)"),
  queued: "var(--chart-1)",
  waiting: striped("var(--chart-1)"),
  quarantined: striped("var(--bad)"),
  dropped: "var(--bad)",
};

/** The states of accepted items; each item has exactly one. `expired` is the part of `leased` that no trainer holds. */
export function itemStatesOf(counts: LedgerCounts, expired = 0): ItemState[] {
  const dropped = Object.values(counts.dropped).reduce((sum, n) => sum + n, 0);
  return [
    { name: "served", count: counts.served, meaning: "In acknowledged batches." },
    { name: "leased", count: counts.leased - expired, meaning: "In a batch that a trainer holds." },
    ...unlessEmpty("expired", expired, "In a batch whose lease has expired: it is leased again first."),
    { name: "queued", count: counts.queued, meaning: "Ready to be part of a batch." },
    { name: "waiting", count: counts.waiting, meaning: "Waiting until enough groups of this size arrive." },
    ...unlessEmpty("quarantined", counts.quarantined, "In a batch whose lease expired repeatedly: release or discard it."),
    { name: "dropped", count: dropped, meaning: "Not served; each drop has a counted reason." },
  ];
}

/** Rare states are shown only with items. */
function unlessEmpty(name: ItemState["name"], count: number, meaning: string): ItemState[] {
  return count > 0 ? [{ name, count, meaning }] : [];
}

/** Number of accepted items without a state; any value but zero is a bug in the ledger. */
export function missing(counts: LedgerCounts): number {
  return counts.accepted - itemStatesOf(counts).reduce((sum, state) => sum + state.count, 0);
}

/** The number of accepted groups whose sequences were cut at the run's maximum; empty if none. */
export function truncatedText(groups: number): string {
  return groups > 0 ? `${counted(groups, "group")} truncated to the maximum length` : "";
}

/** The number of refused pushes, which are no accepted items; empty if none. Workers are counted in fragments. */
export function refusedText(refused: number, unit: string): string {
  if (!(refused > 0)) return "";
  return `${unit === "fragments" ? counted(refused, "fragment") : counted(refused, "push", "pushes")} refused`;
}
