import { expect, it } from "vitest";
import { barAt, spreadOf } from "@/pages/run/episodes/brush";

const BINS = { least: 0, most: 1, counts: [3, 0, 5, 1] };

it("covers the selected bars up to the maximum", () => {
  const spread = spreadOf(BINS);
  expect(spread(1, 2)).toEqual([0.25, 0.75]);
  expect(spread(0, 3)).toEqual([0, 1]);
});

it("clamps to the outermost bar", () => {
  const box = { left: 100, width: 80 };
  expect([barAt(box, 50, 4), barAt(box, 121, 4), barAt(box, 900, 4)]).toEqual([0, 1, 3]);
});
