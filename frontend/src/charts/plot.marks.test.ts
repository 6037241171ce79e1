import { expect, it } from "vitest";
import type { Mark } from "@/charts/model";
import { marksAt, shownMarks } from "@/charts/plot";

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

it("shows weight versions only while there are at most 24 in view", () => {
  const versions = Array.from({ length: 25 }, (_, x): Mark => ({ x, text: `version ${x}`, role: "version" }));
  const marks: Mark[] = [...versions, { x: 3, text: "paused", role: "event" }];
  expect(shownMarks(marks, 0, 24).map(({ text }) => text)).toEqual(["paused"]);
  expect(shownMarks(marks, 1, 24)).toHaveLength(25);
  expect(shownMarks(marks, 30, 40)).toEqual([]);
});
