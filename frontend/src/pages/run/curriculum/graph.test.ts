import { expect, test } from "vitest";
import type { LessonRow } from "@/api/types";
import { drawnOf, graphOf, lineOf, neighbourOf } from "@/pages/run/curriculum/graph";

function lesson(name: string, requires: string[] = [], status: LessonRow["status"] = "locked"): LessonRow {
  return {
    name,
    status,
    requires: requires.map((one) => ({ lesson: one, min_success: 0 })),
  } as LessonRow;
}

const placesOf = (lessons: LessonRow[]) =>
  Object.fromEntries(graphOf(lessons).nodes.map(({ lesson: { name }, layer, row }) => [name, [layer, row]]));

test("a lesson is one layer after its last prerequisite", () => {
  const lessons = [lesson("a"), lesson("b", ["a"]), lesson("c", ["b"]), lesson("d", ["a", "c"])];
  expect(placesOf(lessons)).toEqual({ a: [0, 0], b: [1, 0], c: [2, 0], d: [3, 0] });
});

test("chains are straight and positions unique", () => {
  const lessons = [lesson("a"), lesson("x"), lesson("b", ["a"]), lesson("y", ["x"]), lesson("both", ["b", "y"]), lesson("y2", ["x"])];
  const places = placesOf(lessons);
  expect(places).toEqual({ a: [0, 0], x: [0, 1], b: [1, 0], y: [1, 1], y2: [1, 2], both: [2, 0] });
  expect(new Set(Object.values(places).map(String)).size).toBe(lessons.length);
});

test("a prerequisite is met when graduated, or when the lesson is unlocked", () => {
  const lessons = [lesson("a", [], "graduated"), lesson("b", [], "active"), lesson("c", ["a", "b"]), lesson("d", ["b"], "active")];
  const met = graphOf(lessons).edges.map(({ from, to, isMet }) => [from.lesson.name, to.lesson.name, isMet]);
  expect(met).toEqual([
    ["a", "c", true],
    ["b", "c", false],
    ["b", "d", true],
  ]);
});

test("edges start and end at lessons", () => {
  const [edge] = graphOf([lesson("a"), lesson("x"), lesson("b", ["x"])]).edges;
  expect(edge && lineOf(edge)).toBe("M 100 150 C 120 150 120 150 140 150");
});

test("edges across layers run between the rows", () => {
  const passing = graphOf([lesson("a"), lesson("b", ["a"]), lesson("c", ["a", "b"])]).edges.find(
    ({ from, to }) => to.layer > from.layer + 1,
  );
  expect(passing && lineOf(passing)).toBe("M 100 50 C 120 50 120 100 140 100 H 240 C 260 100 260 50 280 50");
});

test("arrow keys follow prerequisites and rows", () => {
  const graph = graphOf([lesson("a"), lesson("x"), lesson("b", ["a"])]);
  expect(neighbourOf(graph, "a", "ArrowRight")).toBe("b");
  expect(neighbourOf(graph, "b", "ArrowLeft")).toBe("a");
  expect(neighbourOf(graph, "a", "ArrowDown")).toBe("x");
  expect(neighbourOf(graph, "a", "ArrowUp")).toBe("a");
  expect(neighbourOf(graph, "x", "ArrowRight")).toBe("x");
});

test("large graphs show active lessons and their neighbours in order", () => {
  const lessons = [
    lesson("old", [], "graduated"),
    lesson("before", [], "graduated"),
    lesson("now", ["before"], "active"),
    lesson("next", ["now"]),
    lesson("far", ["next"]),
  ];
  expect(drawnOf(lessons, 3).map(({ name }) => name)).toEqual(["before", "now", "next"]);
  expect(drawnOf(lessons, 5)).toBe(lessons);
});

test("prerequisites that are not drawn have no edge", () => {
  expect(graphOf([lesson("b", ["a"])])).toMatchObject({ edges: [], layers: 1, rows: 1 });
});
