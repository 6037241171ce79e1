import { expect, it } from "vitest";
import { lineStyleAt } from "@/charts/lineStyles";
import { runLines } from "@/charts/lines";

it("keeps raw samples behind a smoothed line in one legend entry", () => {
  const lines = runLines(
    ["a", "b"],
    [
      [0, 1],
      [2, 2],
    ],
    { smooth: 0.5 },
  );
  expect(lines.map(({ label, entry, thin }) => [label, entry, thin])).toEqual([
    ["a", "a", true],
    ["b", "b", true],
    ["a, smoothed", "a", undefined],
    ["b, smoothed", "b", undefined],
  ]);
  expect(lines[0]?.values).toEqual([0, 1]);
  expect(lines[2]?.values[1]).toBeCloseTo(2 / 3);
});

it("gives a run the same style in every chart", () => {
  const places = new Map([
    ["a", 0],
    ["b", 1],
    ["c", 2],
  ]);
  const [only] = runLines(["c"], [[1]], { smooth: 0, places });
  expect(only).toMatchObject(lineStyleAt(2));
  expect(runLines(["c"], [[1]], { smooth: 0 })[0]?.marker).toBeUndefined();
});
