import { expect, it } from "vitest";
import { axisOf, endsOn, placeOn, spanOf } from "./spans";

it("reads an axis and leaves out what is none, or need not be said", () => {
  expect([axisOf("elapsed"), axisOf("step"), axisOf("moon"), axisOf(3)]).toEqual(["elapsed", undefined, undefined, undefined]);
});

it("has places below 0 only since a run began", () => {
  expect([placeOn("elapsed", -3), placeOn("time", -3), placeOn(undefined, 3), placeOn("elapsed", Number.NaN)]).toEqual([
    -3,
    undefined,
    3,
    undefined,
  ]);
});

it("has a span only with both ends, in their order", () => {
  expect(spanOf(endsOn("elapsed", { from: -5, to: 3 }))).toEqual({ from: -5, to: 3 });
  for (const search of [{ from: -5, to: 3 }, { from: 1 }, { from: 3, to: 3 }]) expect(spanOf(endsOn("time", search))).toBeUndefined();
});
