import { expect, it } from "vitest";
import { lineOf } from "@/testing/metrics";
import { drawingOf } from "@/wall/drawing";
import { namesOf } from "@/wall/panels";
import { resourcePanels } from "./Resources";

const line = (name: string, x: number[], last: (number | null)[]) => lineOf("a", `rolldeck/resources/${name}`, x, last);
it("adds charts of GPUs where a line has values of one", () => {
  const keys = (...lines: Parameters<typeof resourcePanels>[0] & object) => resourcePanels(lines).map(({ key }) => key);
  expect(keys()).toEqual(["cpu", "memory"]);
  expect(keys(line("gpu_percent/mean", [1], [5]))).toEqual(["cpu", "memory", "gpu", "gpu-memory"]);
  expect(keys(line("gpu_percent/mean", [], []), line("memory_bytes", [1], [5]))).toEqual(["cpu", "memory"]);
});

it("breaks the line where no worker was measured", () => {
  const memory = resourcePanels()[1];
  if (!memory) throw new Error("no chart");
  expect(namesOf(memory.source)).toContain("rolldeck/resources/workers");
  const look = { runs: ["a"], smooth: 0 };
  const drawn = drawingOf(memory, [line("memory_bytes", [10, 40], [1e9, 2e9]), line("workers", [10, 20, 40], [1, 0, 1])], look);
  expect(drawn.x).toEqual([10, 20.001, 40]);
  expect(drawn.lines[0]?.values).toEqual([1, null, 2]);
  expect(drawn.newest).toBe(2);
  expect(drawingOf(memory, [line("workers", [10], [0])], look).x).toEqual([]);
});
