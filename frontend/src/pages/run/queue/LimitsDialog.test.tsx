import { expect, it } from "vitest";
import { changesOf } from "./LimitsDialog";

const now = {
  off_policy_tolerance: 3,
  max_staleness: 2,
  lease_seconds: 600,
  on_second_registration: "keep" as const,
};

it("requests only changed limits", () => {
  expect(changesOf(now, now)).toBeNull();
  expect(changesOf(now, { ...now, off_policy_tolerance: 5 })).toEqual({ off_policy_tolerance: 5 });
  expect(changesOf(now, { ...now, on_second_registration: "reset" })).toEqual({ on_second_registration: "reset" });
  expect(changesOf(now, { ...now, max_staleness: 0, lease_seconds: 60 })).toEqual({ max_staleness: 0, lease_seconds: 60 });
});

it("treats empty staleness as no limit and rejects partial numbers", () => {
  expect(changesOf(now, { ...now, max_staleness: null })).toEqual({ max_staleness: null });
  expect(changesOf({ ...now, max_staleness: null }, { ...now, max_staleness: null })).toBeNull();
  expect(changesOf(now, { ...now, off_policy_tolerance: null })).toBeNull();
});
