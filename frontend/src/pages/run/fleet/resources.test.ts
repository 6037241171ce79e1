import { expect, it } from "vitest";
import { lineOf } from "@/testing/metrics";
import { drawingOf } from "@/wall/drawing";
import { namesOf, type PanelSpec } from "@/wall/panels";
import { isGpuLine, resourceNames, resourcePanels } from "./resources";

const workers = (count: number) => Array.from({ length: count }, (_, index) => ({ index }));
const keys = (count: number, hasGpu = false) => resourcePanels(workers(count), hasGpu).map(({ key }) => key);
const line = (name: string, x: number[], last: (number | null)[]) => lineOf("a", `rolldeck/resources/${name}`, x, last);
const presetOf = (panel: PanelSpec | undefined) => {
  if (panel?.source.kind !== "preset") throw new Error("no preset");
  return panel.source;
};

it("adds charts by worker for several workers, and of GPUs where there are some", () => {
  expect(keys(1)).toEqual(["cpu", "memory"]);
  expect(keys(2)).toEqual(["cpu", "memory", "worker-cpu", "worker-memory"]);
  expect(keys(2, true).slice(4)).toEqual(["gpu", "gpu-memory"]);
});

it("draws each worker of a small fleet, and the spread of a large one", () => {
  const small = presetOf(resourcePanels(workers(8), false)[2]);
  const large = presetOf(resourcePanels(workers(2000), false)[2]);
  expect(small.curves.map(({ label }) => label)).toEqual([0, 1, 2, 3, 4, 5, 6, 7].map((index) => `worker ${index}`));
  expect(small.band).toBeUndefined();
  expect(large.curves.map(({ name }) => name)).toEqual(["resources/worker_cpu_cores/mean"]);
  expect(large.band?.high).toBe("resources/worker_cpu_cores/max");
});

it("requests at most 50 names at once, the limit of the API, whatever the size of the fleet", () => {
  for (const count of [0, 1, 8, 9, 2000]) expect(resourceNames(workers(count)).length).toBeLessThanOrEqual(50);
  expect(resourceNames(workers(2))).toContain("rolldeck/resources/gpu_percent/mean");
});

it("breaks the line where no worker was measured", () => {
  const memory = resourcePanels(workers(1), false)[1];
  if (!memory) throw new Error("no chart");
  expect(namesOf(memory.source)).toContain("rolldeck/resources/workers");
  const look = { runs: ["a"], smooth: 0 };
  const drawn = drawingOf(memory, [line("memory_bytes", [10, 40], [1e9, 2e9]), line("workers", [10, 20, 40], [1, 0, 1])], look);
  expect(drawn.x).toEqual([10, 20.001, 40]);
  expect(drawn.lines[0]?.values).toEqual([1, null, 2]);
  expect(drawn.newest).toBe(2);
  expect(drawingOf(memory, [line("workers", [10], [0])], look).x).toEqual([]);
});

it("knows lines of GPUs by name, if they have values", () => {
  expect(isGpuLine(line("gpu_percent/mean", [1], [5]))).toBe(true);
  expect(isGpuLine(line("gpu_percent/mean", [], []))).toBe(false);
  expect(isGpuLine(line("memory_bytes", [1], [5]))).toBe(false);
});
