import { expect, it } from "vitest";
import type { RunRow } from "@/api/types";
import { concerns } from "./concerns";

const NOW = Date.parse("2026-03-01T12:00:00Z");
const ago = (seconds: number) => new Date(NOW - seconds * 1000).toISOString();
const run = (fields: Partial<RunRow>) =>
  ({
    name: "a",
    kind: "fleet",
    status: "running",
    status_reason: "",
    status_changed_at: ago(60),
    observed_at: ago(1),
    ...fields,
  }) as RunRow;

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
