import { expect, it } from "vitest";
import { barsOf, samplesBetween } from "./ranges";

it("has no bars without data", () => {
  expect(barsOf({ counts: [], least: null, most: null })).toBeUndefined();
  expect(barsOf({ counts: [1], least: 0, most: 1 })).toEqual({ counts: [1], least: 0, most: 1 });
});

it("lists the groups or episodes in a range", () => {
  expect(samplesBetween({ of: "return", unit: "groups" }, 0.5, undefined, "sums")).toEqual({ q: "score>=0.5 env:sums" });
  expect(samplesBetween({ of: "length", unit: "episodes" }, 1, 9, undefined)).toEqual({ kind: "episode", q: "length>=1 length<=9" });
});
