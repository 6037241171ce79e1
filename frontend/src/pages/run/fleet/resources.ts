/** Charts of a fleet's resources over time. Pure. */

import type { WorkerRow } from "@/api/types";
import { lineStyleAt } from "@/charts/lineStyles";
import { type Curve, namesOf, OWN, type PanelSpec } from "@/wall/panels";
import { type Preset, presetOf } from "@/wall/presets";

/** Largest fleet with series for each worker. */
const WORKERS_LISTED = 8;
const GIGABYTES = { scale: 1e-9, unit: "GB", floor: 0, least: 0.1 };
const CORES = { unit: "cores", floor: 0, least: 0.1 };
const COMMON = { gapsAt: "resources/workers", empty: "No worker measured yet." };
const GPU_PREFIX = `${OWN}resources/gpu`;

const TOTALS: readonly Preset[] = [
  {
    key: "cpu",
    title: "CPU",
    note: "busy cores, all workers",
    curves: [{ name: "resources/cpu_cores", label: "all workers", role: 1 }],
    ...CORES,
    ...COMMON,
  },
  {
    key: "memory",
    title: "Memory",
    note: "resident, in GB, all workers",
    curves: [{ name: "resources/memory_bytes", label: "all workers", role: 2 }],
    ...GIGABYTES,
    ...COMMON,
  },
];

/** The mean over workers, with the range from the lowest to the highest. */
const spread = (name: string): Pick<Preset, "curves" | "band"> => ({
  curves: [{ name: `${name}/mean`, label: "mean", role: 1 }],
  band: { low: `${name}/min`, high: `${name}/max`, label: "min – max" },
});

const GPUS: readonly Preset[] = [
  {
    key: "gpu",
    title: "GPU utilization",
    note: "% of the time, by device",
    ...spread("resources/gpu_percent"),
    unit: "%",
    floor: 0,
    ...COMMON,
  },
  {
    key: "gpu-memory",
    title: "GPU memory",
    note: "in use, in GB, by device",
    ...spread("resources/gpu_memory_bytes"),
    ...GIGABYTES,
    ...COMMON,
  },
];

const single = (indices: readonly number[], name: string): Pick<Preset, "curves" | "hasEqualCurves"> => ({
  curves: indices.map((index): Curve => ({ name: `resources/worker/${index}/${name}`, label: `worker ${index}`, ...lineStyleAt(index) })),
  hasEqualCurves: true,
});

/** Each worker as a line; of a large fleet the spread over its workers. */
function byWorker(workers: readonly Pick<WorkerRow, "index">[]): Preset[] {
  if (workers.length < 2) return [];
  const indices = workers.map(({ index }) => index).filter((index) => index < WORKERS_LISTED);
  const curvesOf = (name: string) =>
    workers.length > WORKERS_LISTED
      ? spread(`resources/worker_${name}`)
      : single(
          indices.sort((a, b) => a - b),
          name,
        );
  return [
    { key: "worker-cpu", title: "CPU by worker", note: "busy cores", ...curvesOf("cpu_cores"), ...CORES, ...COMMON },
    { key: "worker-memory", title: "Memory by worker", note: "resident, in GB", ...curvesOf("memory_bytes"), ...GIGABYTES, ...COMMON },
  ];
}

/** The panels of a fleet; those of GPUs only if it has some. */
export function resourcePanels(workers: readonly Pick<WorkerRow, "index">[], hasGpu: boolean): PanelSpec[] {
  const presets = [...TOTALS, ...byWorker(workers), ...(hasGpu ? GPUS : [])];
  return presets.map((preset) => presetOf({ className: "span-6", ...preset }));
}

/** The names of all panels, whether the fleet has GPUs or not, requested together. */
export function resourceNames(workers: readonly Pick<WorkerRow, "index">[]): string[] {
  return [...new Set(resourcePanels(workers, true).flatMap(({ source }) => namesOf(source)))];
}

/** Whether a line has values of a GPU. */
export function isGpuLine({ name, x }: { name: string; x: readonly number[] }): boolean {
  return name.startsWith(GPU_PREFIX) && x.length > 0;
}
