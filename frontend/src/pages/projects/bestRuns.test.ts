import { expect, test } from "vitest";
import type { ProjectRun } from "@/api/projects";
import { bestRuns } from "@/pages/projects/bestRuns";

const listed = [
  { name: "a", status: "running", return_mean: 421 },
  { name: "b", status: "running", return_mean: 281 },
  { name: "c", status: "completed", return_mean: 12 },
] as ProjectRun[];

test("best runs have the live values of the list below them, in their order", () => {
  const live = [
    { name: "b", status: "paused" as const, return_mean: 430 },
    { name: "a", status: "running" as const, return_mean: 426 },
    { name: "c", status: "completed" as const },
  ];
  expect(bestRuns(listed, live).map((run) => [run.name, run.status, run.return_mean])).toEqual([
    ["b", "paused", 430],
    ["a", "running", 426],
    ["c", "completed", 12],
  ]);
});

test("without live values the runs stay as they are", () => {
  expect(bestRuns(listed, [])).toEqual(listed);
});
