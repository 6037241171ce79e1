import { expect, it } from "vitest";
import { barsOf, fragmentsOf, groupsBetween } from "@/pages/run/episodes/ranges";

it("has no bars without data", () => {
  expect(barsOf({ counts: [4, 1, 2], least: 0, most: 30 })).toEqual({ least: 0, most: 30, counts: [4, 1, 2] });
  expect(barsOf({ counts: [], least: null, most: null })).toBeUndefined();
});

it("builds the group filter of a range", () => {
  expect(groupsBetween("return", 0.5, undefined, "sort")).toEqual({ score_min: 0.5, score_max: undefined, lesson: ["sort"] });
  expect(groupsBetween("length", 1, 9, undefined)).toEqual({ length_min: 1, length_max: 9 });
});

it("builds the fragment filter of an episode", () => {
  expect(fragmentsOf({ worker: 3, policy_step: 7 })).toEqual({ q: "w3-", version_min: 7, version_max: 7 });
  expect(fragmentsOf({ worker: 3, policy_step: -2 })).toEqual({ q: "w3-" });
});
