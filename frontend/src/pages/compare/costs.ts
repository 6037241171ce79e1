/** Ratios of a run's output and cost. Pure. */

import type { RunCost } from "@/api/compare";

/** Amount per unit of time; null if either is unknown or no time has passed. */
export function rateOf(amount: number | null, seconds: number | null, unitSeconds = 1): number | null {
  return amount === null || seconds === null || seconds <= 0 ? null : (amount * unitSeconds) / seconds;
}

/** Drop reasons of all runs, largest total first. */
export function reasonsOf(costs: RunCost[]): string[] {
  const sums = new Map<string, number>();
  for (const { ledger } of costs)
    for (const [reason, items] of Object.entries(ledger.dropped)) if (items > 0) sums.set(reason, (sums.get(reason) ?? 0) + items);
  return [...sums].sort((one, other) => other[1] - one[1] || one[0].localeCompare(other[0])).map(([reason]) => reason);
}

/** Share of the accepted items; null if there are none. */
export function shareOf(items: number, { ledger }: RunCost): number | null {
  return ledger.accepted > 0 ? items / ledger.accepted : null;
}
