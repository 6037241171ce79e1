import { expect, it } from "vitest";
import { itemStatesOf, missing } from "./itemStates";

const counts = {
  accepted: 20,
  queued: 3,
  waiting: 1,
  leased: 4,
  served: 9,
  quarantined: 0,
  dropped: { stale_version: 2, killed: 1 },
  balanced: true,
};

it("sums drop reasons", () => {
  expect(itemStatesOf(counts).find((state) => state.name === "dropped")?.count).toBe(3);
});

it("shows the quarantine only if not empty", () => {
  const names = (quarantined: number) => itemStatesOf({ ...counts, quarantined }).map((state) => state.name);
  expect(names(0)).not.toContain("quarantined");
  expect(names(2)).toContain("quarantined");
});

it("counts items without a state", () => {
  expect(missing(counts)).toBe(0);
  expect(missing({ ...counts, accepted: 22 })).toBe(2);
});
