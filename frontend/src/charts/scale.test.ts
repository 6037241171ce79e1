import { expect, it } from "vitest";
import { shareOf, valueAt } from "./scale";

const [LARGE, LARGEST] = [1e308, Number.MAX_VALUE];

it.each([
  [0, -1, 1, 0.5],
  [3, 0, 4, 0.75],
  [0, -LARGE, LARGE, 0.5],
  [LARGE, -LARGE, LARGE, 1],
  [-LARGE, -LARGE, LARGE, 0],
  [LARGEST, -LARGEST, LARGEST, 1],
  [-LARGEST, -LARGEST, LARGEST, 0],
  [1, 1, 1, 0.5],
  [5, 0, 1, 1],
  [-5, 0, 1, 0],
  [1, Number.NaN, 1, 0.5],
])("places %d between %d and %d at %d", (value, low, high, share) => {
  expect(shareOf(value, low, high)).toBeCloseTo(share);
});

it.each([
  [0, 4, 3, 0.75],
  [-LARGEST, LARGEST, 0, 0.5],
  [-LARGEST, LARGEST, LARGEST, 1],
  [-LARGEST, LARGEST, -LARGEST, 0],
])("finds between %d and %d the value %d at %d", (low, high, value, share) => {
  expect(valueAt(share, low, high)).toBeCloseTo(value);
});
