import { expect, it } from "vitest";
import { lineStyleAt, styleText } from "@/charts/lineStyles";

it("twenty lines have distinct styles", () => {
  const looks = [...Array(20).keys()].map(lineStyleAt);
  expect(new Set(looks.map((look) => JSON.stringify(look))).size).toBe(20);
  const plain = looks.map(({ dash, marker }) => JSON.stringify([dash, marker]));
  expect(new Set(plain).size).toBe(20);
});

it("describes a style without its colour", () => {
  expect([0, 1, 2, 3, 5].map((place) => styleText(lineStyleAt(place)))).toEqual([
    "Solid line with circles",
    "Dashed line with squares",
    "Dotted line with triangles",
    "Dash-dotted line with diamonds",
    "Dashed line with crosses",
  ]);
  expect([styleText({}), styleText({ dashed: true })]).toEqual(["Solid line", "Dashed line"]);
});
