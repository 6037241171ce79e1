import { expect, it } from "vitest";
import { endsOn, placeOn, spanOf } from "@/charts/names";

it("allows values below 0 only for elapsed time", () => {
  expect([placeOn("elapsed", -3), placeOn("time", -3), placeOn(undefined, 3), placeOn("elapsed", Number.NaN)]).toEqual([
    -3,
    undefined,
    3,
    undefined,
  ]);
});

it("requires both ends of a range in order", () => {
  expect(spanOf(endsOn("elapsed", { from: -5, to: 3 }))).toEqual({ from: -5, to: 3 });
  for (const search of [{ from: -5, to: 3 }, { from: 1 }, { from: 3, to: 3 }]) expect(spanOf(endsOn("time", search))).toBeUndefined();
});
