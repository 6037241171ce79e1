import { expect, it } from "vitest";
import type { Line } from "@/charts/model";
import { aloneIn, csvText, indexAt, sheetOf, valueAt } from "./sheet";

const line = (label: string, values: Line["values"], more: Partial<Line> = {}): Line => ({ label, values, role: 1, ...more });
const chart = {
  x: [1, 2, 3, 4],
  xLabel: "train step",
  lines: [line("a", [1, undefined, 3, undefined]), line("b, smoothed", [undefined, 20, undefined, null], { entry: "b" })],
};
const ALL = { from: 0, to: 9 };

it("exports only visible data", () => {
  expect(sheetOf(chart, { from: 2, to: 3 }).rows).toEqual([
    [2, undefined, 20],
    [3, 3, undefined],
  ]);
  const one = sheetOf(chart, ALL, ["b"]);
  expect(one.head).toEqual(["train step", "a"]);
  expect(one.rows).toEqual([
    [1, 1],
    [3, 3],
  ]);
});

it("quotes names with commas and places the band beside its line", () => {
  expect(csvText(sheetOf(chart, { from: 4, to: 4 }))).toBe('train step,a,"b, smoothed"\n4,,\n');
  const banded = { ...chart, lines: [line("a", [1, 2, 3, 4])], band: { low: [0, 1, 2, 3], high: [9, 9, 9, 9], label: "min – max" } };
  expect(csvText(sheetOf(banded, { from: 1, to: 1 }))).toBe("train step,a,least,greatest\n1,1,0,9\n");
});

it("finds the value between points, and none outside the line", () => {
  const values = [undefined, 5, undefined, undefined, 7, undefined];
  expect([0, 1, 2, 3, 4, 5].map((i) => indexAt(values, i))).toEqual([null, 1, 1, 1, 4, null]);
  expect(valueAt([5, null, undefined, 7], 2)).toBeNull();
});

it("finds isolated values between gaps", () => {
  expect(aloneIn([null, 1, null, 2, 3, null, 4])).toEqual([1, 6]);
  expect(aloneIn([1, undefined, 2])).toEqual([]);
  expect(aloneIn([undefined, 1])).toEqual([1]);
  expect(aloneIn([1, 2, 3, 4, 5, 6], [0, 1, 2, 300, 600, 601])).toEqual([3]);
});
