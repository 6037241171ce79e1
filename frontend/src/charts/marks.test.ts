import { expect, it } from "vitest";
import { marksAt } from "./marks";
import type { Mark } from "./model";

it("finds the marks under the pointer", () => {
  const marks: Mark[] = [
    { x: 10, text: "lower rate", role: "note" },
    { x: 11, text: "paused", role: "event" },
    { x: 40, text: "far away", role: "note" },
  ];
  const found = marksAt(marks, 101, (x) => x * 10);
  expect(found.map(({ text }) => text)).toEqual(["lower rate"]);
  expect(marksAt(marks, 106, (x) => x * 10).map(({ text }) => text)).toEqual(["lower rate", "paused"]);
  expect(marksAt([], 0, (x) => x)).toEqual([]);
});
