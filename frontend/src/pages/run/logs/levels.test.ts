import { expect, it } from "vitest";
import { levelOf, levelsOf, lineAt, reaches, timeOf, withoutTime } from "./levels";

it.each([
  ["2026-03-01 12:00:00,123 WARNING Main rollouts.fleet: slow", "warning"],
  ["INFO: Started server process", "info"],
  ['{"level": "error", "msg": "lost"}', "error"],
  ["ts=1 level=warn msg=hm", "warning"],
  ["W0301 12:00:00.000 1 file.cc:3] low", "warning"],
  ["E 2026-03-01 12:00:00 raylet died", "error"],
  ["Traceback (most recent call last):", "error"],
  ["ValueError: pole angle is nan", "error"],
  ["CRITICAL disk", "error"],
  ["an information of nothing", null],
  ["I am here", null],
  ["", null],
])("parses the level of %s", (line, level) => {
  expect(levelOf(line)).toBe(level);
});

it("inherits the level of the line before", () => {
  expect(levelsOf(["hello", "INFO a", "ERROR b", "  at line 3", "INFO c"])).toEqual([null, "info", "error", "error", "info"]);
  expect([reaches(null, "error"), reaches("info", "warning"), reaches("error", "warning")]).toEqual([true, false, true]);
});

it("parses leading timestamps, in UTC by default", () => {
  expect(timeOf("2026-03-01 12:00:00,250 INFO x")).toBe(Date.parse("2026-03-01T12:00:00.250Z"));
  expect(timeOf("[2026-03-01T13:00:00+01:00] x")).toBe(Date.parse("2026-03-01T12:00:00Z"));
  expect(timeOf("E 2026-03-01 12:00:00 raylet")).toBe(Date.parse("2026-03-01T12:00:00Z"));
  expect(timeOf("2026-99-99 12:00:00 x")).toBeNull();
  expect(timeOf("at 12:00")).toBeNull();
});

it("omits the leading timestamp", () => {
  expect(withoutTime("2026-03-01 12:00:00,250 INFO x")).toBe("INFO x");
  expect(withoutTime("[2026-03-01T13:00:00+01:00] x")).toBe("x");
  expect(withoutTime("2026-03-01 12:00:00")).toBe("2026-03-01 12:00:00");
  expect(withoutTime("Traceback at 12:00")).toBe("Traceback at 12:00");
});

it("finds the first line at or after a time", () => {
  const lines = ["2026-03-01 12:00:00 a", "  more of a", "2026-03-01 12:00:05 b"];
  expect(lineAt(lines, Date.parse("2026-03-01T12:00:01Z"))).toBe(2);
  expect(lineAt(lines, Date.parse("2026-03-01T11:00:00Z"))).toBe(0);
  expect(lineAt(lines, Date.parse("2026-03-01T13:00:00Z"))).toBeNull();
  expect(lineAt(["a"], 0)).toBeNull();
});
