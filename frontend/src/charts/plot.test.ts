import { expect, it } from "vitest";
import { atLeastSeconds, labelWidth } from "@/charts/plot";

it.each([
  [null, 48],
  [["0", "500"], 48],
  [["0", "250,000"], 63],
  [["-1,250,000", "0"], 84],
])("gives the labels %j a width of %d px", (labels, width) => expect(labelWidth(null, labels)).toBe(width));

it.each([
  [[100], 100, 86_500, [100, 105]],
  [[100, 100], 100, 86_500, [100, 105]],
  [[100, 102], 100, 102, [100, 105]],
  [[100, 200], 100, 200, [100, 200]],
  [[100, 86_500], 100, 86_500, [100, 86_500]],
  [[], null, null, [null, null]],
])("shows at least some seconds of the samples at %j", (x, low, high, shown) => {
  expect(atLeastSeconds({ data: [x] }, low, high)).toEqual(shown);
});
