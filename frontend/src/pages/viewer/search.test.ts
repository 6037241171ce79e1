import { expect, test } from "vitest";
import { firstShown } from "@/pages/viewer/search";

const sequences = [
  { score: 0.9, tokens: 12 },
  { score: null, tokens: 3 },
  { score: -1, tokens: 30 },
  { score: -1, tokens: 9 },
];

test.each([
  [undefined, 0],
  ["newest", 0],
  ["-score", 0],
  ["score", 2],
  ["-length", 2],
])("a list sorted by %s opens its groups at sequence %i", (sort, place) => {
  expect(firstShown(sort, sequences)).toBe(place);
});

test("a group without sequences or scores opens at the first", () => {
  expect(firstShown("score", [])).toBe(0);
  expect(
    firstShown("score", [
      { score: null, tokens: 1 },
      { score: null, tokens: 2 },
    ]),
  ).toBe(0);
});
