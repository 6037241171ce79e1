import { Button, Group, Space } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { linesQuery } from "@/api/metrics";
import type { RunDetail } from "@/api/types";
import { type Ends, spanOf } from "@/charts/names";
import { PANEL_GRID } from "@/components/panels";
import { RunWall } from "@/pages/run/RunWall";
import { namesOf, OWN, type PanelSpec } from "@/wall/panels";
import { PRESET_POINTS, type Preset, presetOf } from "@/wall/presets";
import { UNZOOMED } from "@/wall/view";

const BYTES = { scale: 1e-9, unit: "GB", floor: 0, least: 0.1 };

/** The mean over workers, with the range from the lowest to the highest. */
const spread = (name: string): Pick<Preset, "curves" | "band"> => ({
  curves: [{ name: `${name}/mean`, label: "mean", role: 1 }],
  band: { low: `${name}/min`, high: `${name}/max`, label: "min – max" },
});

const PANELS = (
  [
    {
      key: "cpu",
      title: "CPU",
      note: "busy cores, all workers",
      unit: "cores",
      floor: 0,
      least: 0.1,
      curves: [{ name: "resources/cpu_cores", label: "all workers", role: 1 }],
    },
    {
      key: "memory",
      title: "Memory",
      note: "resident, in GB, all workers",
      ...BYTES,
      curves: [{ name: "resources/memory_bytes", label: "all workers", role: 2 }],
    },
    {
      key: "gpu",
      title: "GPU utilization",
      note: "% of the time, by device",
      unit: "%",
      floor: 0,
      ...spread("resources/gpu_percent"),
    },
    { key: "gpu-memory", title: "GPU memory", note: "in use, in GB, by device", ...BYTES, ...spread("resources/gpu_memory_bytes") },
  ] satisfies Preset[]
).map((preset) => presetOf({ columns: 6, gapsAt: "resources/workers", empty: "No worker measured yet.", ...preset }));

/** The names of all panels, whether the fleet has GPUs or not, requested together. */
const NAMES = [...new Set(PANELS.flatMap(({ source }) => namesOf(source)))];

/** The panels of a fleet; those of GPUs only if a line has values of one. */
export function resourcePanels(lines: readonly { name: string; x: readonly number[] }[] = []): PanelSpec[] {
  const hasGpu = lines.some(({ name, x }) => name.startsWith(`${OWN}resources/gpu`) && x.length > 0);
  return PANELS.filter(({ key }) => hasGpu || !key.startsWith("gpu"));
}

/** CPU, memory and GPU of a fleet over time, with the events of its run. */
export function Resources({ run }: { run: RunDetail }) {
  const [range, setRange] = useState<Ends>(UNZOOMED);
  const view = { runs: [run.name], axis: "time" as const, span: spanOf(range), names: NAMES, points: PRESET_POINTS };
  // Only the charts request the lines, and only while on screen.
  const { data } = useQuery({ ...linesQuery(view), enabled: false });
  const panels = useMemo(() => resourcePanels(data), [data]);
  return (
    <section aria-label="Resources">
      <Group gap="md" align="baseline" pb="sm">
        <h2>Resources</h2>
        <span className="small soft">
          Sampled every 10 s. Dotted lines: changes of the run, launches and ended workers; up to 24 weight versions in view.
        </span>
        <Space flex={1} />
        {range.from !== undefined && (
          <Button size="xs" variant="default" onClick={() => setRange(UNZOOMED)}>
            Reset zoom
          </Button>
        )}
      </Group>
      <RunWall panels={panels} together={NAMES} range={range} onRange={setRange} className={PANEL_GRID} events="fleet" />
    </section>
  );
}
