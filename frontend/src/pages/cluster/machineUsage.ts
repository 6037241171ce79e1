/** Charts of a machine's usage over time. Pure. */

import type { MachineCordon, MachineHistory, RayNode } from "@/api/deployment";
import type { Column } from "@/charts/columns";
import type { Mark } from "@/charts/model";
import { bytes, counted, number } from "@/format";

export const RANGES = [
  { value: "1", label: "Last hour" },
  { value: "6", label: "Last 6 hours" },
  { value: "24", label: "Last day" },
  { value: "168", label: "Last week" },
];

export type MachineChart = { key: string; title: string; note: string; label: string; values: Column; role: 1 | 2 | 3 | 4 };

const GIGABYTE = 1e9;
const NOT_MEASURED = "not measured";
const inGigabytes = (value: number | null) => (value === null ? null : value / GIGABYTE);
const ofTotal = (what: string, total: string | null) => (total === null ? NOT_MEASURED : `${what} of ${total}`);

/** Times of the points in seconds; intervals without samples before the first and after the last are omitted. */
export function pointsOf(history: MachineHistory) {
  const isMeasured = (point: MachineHistory["points"][number]) => point.cpu_cores !== null;
  const first = history.points.findIndex(isMeasured);
  return first < 0 ? [] : history.points.slice(first, history.points.findLastIndex(isMeasured) + 1);
}

/** The charts of a machine; those of GPUs only if it has some. */
export function machineCharts(history: MachineHistory): { x: number[]; charts: MachineChart[] } {
  const points = pointsOf(history);
  const { cpus, gpus, memory_total_bytes: memory, gpu_memory_total_bytes: gpuMemory } = history;
  const charts: MachineChart[] = [
    {
      key: "cpu",
      title: "CPU",
      note: ofTotal("busy cores", cpus === null ? null : number(cpus)),
      label: "busy cores",
      values: points.map(({ cpu_cores }) => cpu_cores),
      role: 1,
    },
    {
      key: "memory",
      title: "Memory",
      note: ofTotal("in GB", memory === null ? null : bytes(memory)),
      label: "memory in GB",
      values: points.map(({ memory_bytes }) => inGigabytes(memory_bytes)),
      role: 2,
    },
  ];
  if (gpus) {
    charts.push(
      {
        key: "gpu",
        title: "GPU utilization",
        note: `% of the time, mean of ${counted(gpus, "GPU")}`,
        label: "utilization in %",
        values: points.map(({ gpu_percent }) => gpu_percent),
        role: 3,
      },
      {
        key: "gpu-memory",
        title: "GPU memory",
        note: ofTotal("in GB", gpuMemory === null ? null : bytes(gpuMemory)),
        label: "GPU memory in GB",
        values: points.map(({ gpu_memory_bytes }) => inGigabytes(gpu_memory_bytes)),
        role: 4,
      },
    );
  }
  return { x: points.map(({ at }) => Date.parse(at) / 1000), charts };
}

/** The cordon of a machine as a mark. */
export function cordonMarks(node: string, cordons: readonly MachineCordon[]): Mark[] {
  return cordons
    .filter((cordon) => cordon.node === node)
    .map(({ cordoned_at, cordoned_by, reason }) => ({
      x: Date.parse(cordoned_at) / 1000,
      text: `cordoned by ${cordoned_by}: ${reason}`,
      role: "event",
    }));
}

/** Living machines by name, the head first; a host of several nodes has their ids. */
export function choicesOf(nodes: readonly RayNode[]): { value: string; label: string }[] {
  const alive = nodes.filter((node) => node.alive);
  const isShared = ({ host }: RayNode) => alive.filter((other) => other.host === host).length > 1;
  return [...alive]
    .sort((one, other) => Number(other.is_head) - Number(one.is_head) || one.host.localeCompare(other.host))
    .map((node) => ({ value: node.node, label: isShared(node) ? `${node.host} (${node.node.slice(0, 12)})` : node.host }));
}
