import { expect, it } from "vitest";
import type { ShownRun } from "@/pages/runs/rows";
import { concerns, inAll, mineFirst, progress } from "./attention";

const NOW = Date.parse("2026-03-01T12:00:00Z");
const ago = (seconds: number) => new Date(NOW - seconds * 1000).toISOString();
const run = (fields: Partial<ShownRun>) =>
  ({
    name: "a",
    kind: "fleet",
    status: "running",
    status_reason: "",
    status_changed_at: ago(60),
    observed_at: ago(1),
    ...fields,
  }) as ShownRun;

it("lists silent and long-paused runs with reasons", () => {
  const runs = [
    run({ name: "well" }),
    run({ name: "silent", observed_at: ago(40), fleet_reason: "its manager does not report" }),
    run({ name: "left", status: "paused", status_changed_at: ago(7200), status_reason: "the cluster moves" }),
    run({ name: "pausing", status: "paused", status_changed_at: ago(60) }),
    run({ name: "outside", kind: "outside", observed_at: null }),
  ];
  expect(concerns(runs, [], NOW).map(({ run: { name }, why }) => [name, why])).toEqual([
    ["left", "paused for 2 h 00: the cluster moves"],
    ["silent", "last fleet heartbeat 40 s ago: its manager does not report"],
  ]);
});

it("omits runs with an open alert", () => {
  expect(concerns([run({ name: "silent", observed_at: ago(40) })], [{ runs: ["silent"] }], NOW)).toEqual([]);
});

it("lists the user's own runs first", () => {
  const runs = [
    { id: 1, created_by: "bob" },
    { id: 2, created_by: "ada" },
    { id: 3, created_by: null },
    { id: 4, created_by: "ada" },
  ];
  expect(mineFirst(runs, "ada").map(({ id }) => id)).toEqual([2, 4, 1, 3]);
});

it("has progress only with planned steps", () => {
  expect(progress({ served_steps: 30, num_steps: 120 })).toBe(0.25);
  expect(progress({ served_steps: 130, num_steps: 120 })).toBe(1);
  expect(progress({ served_steps: 5, num_steps: 0 })).toBeNull();
});

it("counts runs that were not loaded", () => {
  expect(inAll({ shown: 49, read: 50, total: 180 })).toBe(179);
  expect(inAll({ shown: 3, read: 4, total: 4 })).toBe(3);
  expect(inAll({ shown: 3, read: 3, total: 0 })).toBe(3);
});
