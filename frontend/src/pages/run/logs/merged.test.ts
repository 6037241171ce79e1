import { expect, it } from "vitest";
import { timeOf } from "./levels";
import { merged } from "./merged";

it("leaves a single log unchanged", () => {
  expect(merged([{ name: "manager", lines: ["b", "a"] }])).toEqual(["b", "a"]);
});

it("merges lines by time and keeps tracebacks together", () => {
  const manager = { name: "manager", lines: ["2026-03-01 12:00:00 INFO begins", "2026-03-01 12:00:05 INFO worker 0 is lost"] };
  const worker = {
    name: "worker 0",
    lines: ["no time here", "2026-03-01 12:00:03 ERROR it broke", "Traceback (most recent call last):", "ValueError: no"],
  };
  expect(merged([manager, worker])).toEqual([
    "[worker 0] no time here",
    "[manager] 2026-03-01 12:00:00 INFO begins",
    "[worker 0] 2026-03-01 12:00:03 ERROR it broke",
    "[worker 0] Traceback (most recent call last):",
    "[worker 0] ValueError: no",
    "[manager] 2026-03-01 12:00:05 INFO worker 0 is lost",
  ]);
});

it("keeps the order of a log whose clock went back", () => {
  const lines = ["2026-03-01 12:00:05 INFO one", "2026-03-01 12:00:01 INFO two"];
  expect(
    merged([
      { name: "a", lines },
      { name: "b", lines: [] },
    ]),
  ).toEqual(lines.map((line) => `[a] ${line}`));
});

it("keeps timestamps parsable", () => {
  const [line = ""] = merged([
    { name: "worker 3, slot 1", lines: ["2026-03-01 12:00:05 INFO one"] },
    { name: "manager", lines: [] },
  ]);
  expect(timeOf(line)).toBe(Date.parse("2026-03-01T12:00:05Z"));
});
