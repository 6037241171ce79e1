import { expect, it } from "vitest";
import type { LedgerPart } from "@/api/types";
import { itemStatesOf, lossesOf, missing } from "./Ledger";

const counts = { accepted: 20, queued: 4, waiting: 1, leased: 7, served: 6, quarantined: 0, dropped: { poison: 2 }, balanced: true };
const named = (expired?: number) => Object.fromEntries(itemStatesOf(counts, expired).map(({ name, count }) => [name, count]));

it("counts items of expired leases apart from leased ones", () => {
  expect(named()).toEqual({ served: 6, leased: 7, queued: 4, waiting: 1, dropped: 2 });
  expect(named(7)).toMatchObject({ leased: 0, expired: 7 });
  expect(Object.values(named(5)).reduce((sum, count) => sum + count, 0)).toBe(counts.accepted);
  expect(missing(counts)).toBe(0);
});

it("lists rollouts that failed, were refilled or lost with their group, if there are any", () => {
  const part = (losses: Partial<LedgerPart>) => ({ failed: {}, refilled: 0, lost_siblings: 0, ...losses }) as LedgerPart;
  expect(lossesOf(part({}))).toEqual([]);
  expect(lossesOf(part({ failed: { tool_failed: 3, rollout_unscored: 1 }, refilled: 2, lost_siblings: 5 }))).toEqual([
    ["failed: tool failed", 3],
    ["failed: rollout unscored", 1],
    ["refilled", 2],
    ["lost with their group", 5],
  ]);
});
