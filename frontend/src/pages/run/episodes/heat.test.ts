import { describe, expect, it } from "vitest";
import { barsOf, cellsOf, fragmentsOf, groupsBetween, heatText, unlikeText } from "@/pages/run/episodes/heat";

const columns = [
  { at: "2026-03-01T12:00:00Z", counts: [4, 1, 0] },
  { at: "2026-03-01T12:10:00Z", counts: [0, 0, 0] },
  { at: "2026-03-01T12:20:00Z", counts: [0, 0, 2] },
];

describe("a distribution over time", () => {
  it("scales each column by its fullest cell", () => {
    expect(cellsOf(columns)).toEqual([
      { column: 0, bin: 0, count: 4, part: 1 },
      { column: 0, bin: 1, count: 1, part: 0.25 },
      { column: 2, bin: 2, count: 2, part: 1 },
    ]);
  });
  it("is aggregated to bars", () => {
    expect(barsOf({ columns, least: 0, most: 30 })).toEqual({ least: 0, most: 30, counts: [4, 1, 2] });
    expect(barsOf({ columns: [], least: null, most: null })).toBeUndefined();
  });
  it("has screen reader text", () => {
    expect(heatText({ columns, least: 0, most: 30 })).toBe("from 0 to 30: first median near 5, then no data, last median near 25");
    expect(heatText({ columns: [], least: null, most: null })).toBe("no data");
  });
});

it("builds the group filter of a range", () => {
  expect(groupsBetween("return", 0.5, undefined, "sort")).toEqual({ score_min: 0.5, score_max: undefined, lesson: ["sort"] });
  expect(groupsBetween("length", 1, 9, undefined)).toEqual({ length_min: 1, length_max: 9 });
});

it("builds the fragment filter of an episode", () => {
  expect(fragmentsOf({ worker: 3, policy_step: 7 })).toEqual({ q: "w3-", version_min: 7, version_max: 7 });
  expect(fragmentsOf({ worker: 3, policy_step: -2 })).toEqual({ q: "w3-" });
});

it("describes a worker's deviation", () => {
  expect(unlikeText({ measure: "return_mean", median: 191.5, score: -40 })).toBe("return far below the median of 192");
  expect(unlikeText({ measure: "aborted_share", median: 0, score: 8 })).toBe("aborted far above the median of 0 %");
});
