import { expect, it } from "vitest";
import { nextRange, RANGES, rangeOf, spanSince } from "./range";

it("cycles through all ranges", () => {
  const seen = RANGES.map((range) => nextRange(range));
  expect(new Set(seen)).toEqual(new Set(RANGES));
  expect(nextRange(86_400)).toBe(0);
});

it("accepts only known ranges", () => {
  expect([rangeOf(3600), rangeOf("900"), rangeOf(0), rangeOf(17), rangeOf("all"), rangeOf(undefined)]).toEqual([
    3600,
    900,
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});

it("moves in steps and always includes now", () => {
  expect(spanSince(1_000_000, 0, 10_000)).toBeUndefined();
  expect(spanSince(1_000_001, 900, 10_000)).toEqual({ from: 110, to: 1010 });
  expect(spanSince(1_009_999, 900, 10_000)).toEqual({ from: 110, to: 1010 });
});
