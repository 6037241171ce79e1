import { expect, test } from "vitest";
import type { LessonProgress, LessonRow } from "@/api/types";
import { linedOf, progressColumns } from "@/pages/run/curriculum/progress";

const PROGRESS: LessonProgress = {
  epoch: 1,
  bucket: 5,
  outcomes: 9,
  is_whole: true,
  results: [
    { lesson: "a", step: [0, 5], samples: [8, 2], successes: [2, 2] },
    { lesson: "b", step: [5, 10], samples: [6, 4], successes: [3, 0] },
    { lesson: "c", step: [0], samples: [2], successes: [0] },
  ],
  next: null,
};

const lesson = (name: string, status: LessonRow["status"]) => ({ name, status }) as LessonRow;
const LESSONS = [lesson("a", "graduated"), lesson("b", "active"), lesson("c", "graduated"), lesson("never", "locked")];

test("shares include lessons without a line", () => {
  const { x, lines } = progressColumns(PROGRESS, ["a", "b"]);
  expect(x).toEqual([0, 5, 10]);
  expect(lines.map(({ share }) => share)).toEqual([
    [80, 25, 0],
    [0, 75, 100],
  ]);
});

test("a lesson without samples has no success rate", () => {
  const [a, b] = progressColumns(PROGRESS, ["a", "b"]).lines;
  expect(a?.success).toEqual([25, 100, null]);
  expect(b?.success).toEqual([null, 50, 0]);
});

test("lessons with a line keep their order", () => {
  expect(linedOf(LESSONS, PROGRESS)).toEqual(["a", "b", "c"]);
  expect(linedOf(LESSONS, PROGRESS, undefined, 2)).toEqual(["a", "b"]);
  expect(linedOf(LESSONS, PROGRESS, "c", 2)).toEqual(["b", "c"]);
});

test("no samples give no lines", () => {
  expect(progressColumns({ ...PROGRESS, results: [] }, [])).toEqual({ x: [], lines: [] });
});
