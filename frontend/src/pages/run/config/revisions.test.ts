import { expect, it } from "vitest";
import { backTo, revisionOf } from "./revisions";

it("extracts changes from an event's details", () => {
  const details = {
    env_id: 0,
    weight: { before: 1, after: 2.5 },
    max_staleness: { before: 4, after: null },
    advantages: { before: "", after: "rloo" },
  };
  expect(revisionOf({ details })).toEqual([
    { name: "weight", before: "1", after: "2.5" },
    { name: "max_staleness", before: "4", after: "none" },
    { name: "advantages", before: "empty", after: "rloo" },
  ]);
  expect(revisionOf({ details: { from: "running", to: "paused" } })).toEqual([]);
});

it("restores only settings that differ", () => {
  const change = (details: Record<string, unknown>) => ({ kind: "settings_changed", details });
  const events = [
    change({ max_staleness: { before: null, after: 2 }, lenient: { before: true, after: false } }),
    change({ max_staleness: { before: 4, after: null }, lease_seconds: { before: 60, after: 30 } }),
    { kind: "environment_changed", details: { weight: { before: 1, after: 2 } } },
    change({ lenient: { before: false, after: true } }),
    { kind: "created", details: {} },
  ];
  expect(backTo(events, 0)).toBeNull();
  expect(backTo(events, 1)?.changes).toEqual({ max_staleness: null, lenient: true });
  expect(backTo(events, 2)?.rows).toEqual([
    { name: "max_staleness", before: "2", after: "4" },
    { name: "lenient", before: "false", after: "true" },
    { name: "lease_seconds", before: "30", after: "60" },
  ]);
  // What was changed and changed back is no difference.
  expect(backTo(events, 4)?.changes).toEqual({ max_staleness: 4, lease_seconds: 60 });
});
