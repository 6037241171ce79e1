import { expect, it } from "vitest";
import type { RunCost } from "@/api/compare";
import { rateOf, reasonsOf, shareOf } from "./costs";

const cost = (dropped: Record<string, number>, accepted = 10) => ({ ledger: { accepted, dropped } }) as unknown as RunCost;

it("has no rate without amount or time", () => {
  expect([rateOf(7200, 3600, 3600), rateOf(null, 10), rateOf(5, null), rateOf(5, 0)]).toEqual([7200, null, null, null]);
});

it("lists drop reasons by total, and shares of accepted items", () => {
  expect(reasonsOf([cost({ stale_age: 1, capacity: 0 }), cost({ stale_age: 1, zero_variance: 9 })])).toEqual([
    "zero_variance",
    "stale_age",
  ]);
  expect([shareOf(3, cost({})), shareOf(3, cost({}, 0))]).toEqual([0.3, null]);
});
