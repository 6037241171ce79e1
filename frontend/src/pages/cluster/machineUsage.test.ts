import { expect, it } from "vitest";
import type { MachineHistory, RayNode } from "@/api/deployment";
import { choicesOf, cordonMarks, machineCharts } from "./machineUsage";

const AT = "2026-03-01T12:00:00Z";
const SECONDS = Date.parse(AT) / 1000;
const EMPTY = { cpu_cores: null, memory_bytes: null, gpu_percent: null, gpu_memory_bytes: null };
const later = (minutes: number) => new Date(Date.parse(AT) + 60_000 * minutes).toISOString();
const history = (points: Partial<MachineHistory["points"][number]>[], more: Partial<MachineHistory> = {}): MachineHistory => ({
  node: "a",
  step_seconds: 60,
  cpus: 8,
  memory_total_bytes: 64e9,
  gpus: 0,
  gpu_memory_total_bytes: null,
  points: points.map((point, i) => ({ at: later(i), ...EMPTY, ...point })),
  ...more,
});
const node = (host: string, id: string, more: Partial<RayNode> = {}): RayNode => ({
  node: id,
  host,
  is_head: false,
  alive: true,
  cpus: 1,
  cpus_used: 0,
  gpus: 0,
  gpus_used: 0,
  memory_bytes: 0,
  memory_used_bytes: 0,
  object_store_bytes: 0,
  object_store_used_bytes: 0,
  ...more,
});

it("keeps gaps between samples and omits empty ends", () => {
  const { x, charts } = machineCharts(history([{}, { cpu_cores: 2, memory_bytes: 3e9 }, {}, { cpu_cores: 4, memory_bytes: 5e9 }, {}]));
  expect(x).toEqual([SECONDS + 60, SECONDS + 120, SECONDS + 180]);
  expect(charts.map(({ key, values }) => [key, values])).toEqual([
    ["cpu", [2, null, 4]],
    ["memory", [3, null, 5]],
  ]);
  expect(charts.map(({ note }) => note)).toEqual(["busy cores of 8", "in GB of 64 GB"]);
});

it("has charts of GPUs only for a machine with GPUs", () => {
  const point = { cpu_cores: 1, memory_bytes: 1e9, gpu_percent: 40, gpu_memory_bytes: 2e10 };
  const { charts } = machineCharts(history([point], { gpus: 2, gpu_memory_total_bytes: 160e9 }));
  expect(charts.slice(2).map(({ title, note, values }) => [title, note, values])).toEqual([
    ["GPU utilization", "% of the time, mean of 2 GPUs", [40]],
    ["GPU memory", "in GB of 160 GB", [20]],
  ]);
});

it("states that a machine was not measured", () => {
  const { x, charts } = machineCharts(history([{}, {}], { cpus: null, memory_total_bytes: null, gpus: null }));
  expect(x).toEqual([]);
  expect(charts.map(({ note }) => note)).toEqual(["not measured", "not measured"]);
});

it("lists living machines, the head first, and distinguishes nodes of one host", () => {
  const nodes = [
    node("b", "id-b"),
    node("gone", "id-gone", { alive: false }),
    node("a", "id-of-the-first-a"),
    node("a", "id-a2"),
    node("z", "id-z", { is_head: true }),
  ];
  expect(choicesOf(nodes).map(({ label }) => label)).toEqual(["z", "a (id-of-the-fi)", "a (id-a2)", "b"]);
});

it("marks the cordon of the machine", () => {
  const cordon = { node: "a", host: "a", reason: "loud fan", cordoned_by: "ada", cordoned_at: AT, workers: 0, managers: [] };
  expect(cordonMarks("a", [cordon])).toEqual([{ x: SECONDS, text: "cordoned by ada: loud fan", role: "event" }]);
  expect(cordonMarks("b", [cordon])).toEqual([]);
});
