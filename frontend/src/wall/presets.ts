/** The default charts of a run, by its kind: panels of built-in metrics. Pure. */

import { BUILTIN_RETURN, linesQuery, type Span } from "@/api/metrics";
import type { MetricAxis, RunDetail } from "@/api/types";
import { returnsFirst, titleOf } from "@/runs/metricOrder";
import { namesOf, OWN, type PanelSpec, type Source } from "@/wall/panels";

type Kind = RunDetail["kind"];
/** A panel of curves before it has a default height and width. */
export type Preset = Omit<PanelSpec, "source"> & Omit<Extract<Source, { kind: "preset" }>, "kind">;

/** A panel of curves. */
export function presetOf({ prefix, curves, band, gapsAt, scale, ...panel }: Preset): PanelSpec {
  return { height: LOW, columns: 4, ...panel, source: { kind: "preset", prefix, curves, band, gapsAt, scale } };
}

/** Heights of charts in px. */
const [LOW, TALL] = [156, 268];

export const PERCENT = { scale: 100, unit: "%", floor: 0 };
const SLOWEST = 0.05;

const reward = (kind: Kind): Preset => ({
  key: "reward",
  title: titleOf([kind], BUILTIN_RETURN) ?? BUILTIN_RETURN,
  note: kind === "outside" ? "mean score of the groups of each train step" : "mean of the last 20 training episodes, by train step",
  curves: [
    { name: "reward/mean", label: "mean", role: 1 },
    { name: "reward/p50", label: "median", role: 2, thin: true, dashed: true },
  ],
  band: { low: "reward/p10", high: "reward/p90", label: "p10 – p90" },
  empty: kind === "outside" ? "No groups received yet." : "No finished training episodes yet.",
  columns: 8,
  height: TALL,
});

const queue = (kind: Kind): Preset => ({
  key: "queue",
  title: "Queue depth",
  note: `in ${kind === "fleet" ? "fragments" : "sequences"}`,
  curves: [
    { name: "queue/depth", label: "queued", role: 1, of: "max" },
    { name: "queue/threshold", label: "pause threshold", role: 2, thin: true, dashed: true },
  ],
  floor: 0,
  empty: "The queue has been empty so far.",
  height: TALL,
});

const staleness: Preset = {
  key: "staleness",
  title: "Staleness",
  note: "versions behind when leased",
  curves: [
    { name: "staleness/p50", label: "median", role: 1 },
    { name: "staleness/p95", label: "95th percentile", role: 4, thin: true, of: "max" },
  ],
  floor: 0,
  empty: "No batches leased yet.",
};

const flow = (kind: Kind): Preset => ({
  key: "flow",
  title: kind === "fleet" ? "Fragments in and out" : "Groups in and out",
  note: "per second",
  curves: [
    { name: "accepted_per_second", label: "received", role: 1 },
    { name: "served_per_second", label: "leased", role: 2, dashed: true },
  ],
  floor: 0,
  least: SLOWEST,
  empty: "No data received yet.",
});

const waits = (kind: Kind): Preset => ({
  key: "waits",
  title: "Wait time",
  note: "% of the time",
  curves: [
    { name: "trainer/waiting_share", label: "trainer waiting for data", role: 1 },
    ...(kind === "outside" ? [] : [{ name: "fleet/waiting_share", label: "workers held by limits", role: 2, dashed: true } as const]),
  ],
  ...PERCENT,
  empty: "No trainer has requested a batch yet.",
});

const lost = (kind: Kind): Preset =>
  kind === "fleet"
    ? {
        key: "truncated",
        title: "Truncated",
        note: "% of training episodes",
        curves: [{ name: "truncated_share", label: "truncated", role: 4 }],
        ...PERCENT,
        empty: "No finished training episodes yet.",
      }
    : {
        key: "variance",
        title: "Zero variance",
        note: "% of groups",
        curves: [
          { name: "zero_variance_share", label: "zero variance", role: 1 },
          { name: "truncated_share", label: "sequences truncated", role: 4, thin: true, dashed: true },
        ],
        ...PERCENT,
        empty: "No groups received yet.",
      };

const LENGTHS: Record<Kind, [string, string, string]> = {
  fleet: ["Episode length", "env steps", "No finished training episodes yet."],
  language: ["Answer length", "tokens", "No finished episodes yet."],
  outside: ["Sequence length", "tokens, including the prompt", "No groups received yet."],
};

const length = (kind: Kind): Preset => ({
  key: "length",
  title: LENGTHS[kind][0],
  note: LENGTHS[kind][1],
  curves: [
    { name: "length/mean", label: "mean", role: 1 },
    { name: "length/max", label: "max", role: 4, thin: true, of: "max" },
  ],
  floor: 0,
  empty: LENGTHS[kind][2],
});

const throughput = (kind: Kind): Preset => ({
  key: "throughput",
  title: "Throughput",
  note: kind === "fleet" ? "env steps per second" : "tokens leased per second",
  curves: [
    {
      name: kind === "fleet" ? "env_steps_per_second" : "tokens_per_second",
      label: kind === "fleet" ? "env steps/s" : "tokens/s",
      role: 3,
    },
  ],
  floor: 0,
  least: SLOWEST,
  empty: kind === "fleet" ? "No env steps yet." : "No batches leased yet.",
});

const all = (kind: Kind): readonly PanelSpec[] =>
  returnsFirst(
    [kind],
    [queue(kind), reward(kind), staleness, flow(kind), waits(kind), lost(kind), length(kind), throughput(kind)],
    ({ curves }) => OWN + (curves[0]?.name ?? ""),
  ).map(presetOf);

const PRESETS = { fleet: all("fleet"), language: all("language"), outside: all("outside") };

/** The default charts of a kind of run; a stable reference. */
export const presetsOf = (kind: Kind): readonly PanelSpec[] => PRESETS[kind];

/** Some of the default charts, by their keys. */
export const presetsNamed = (kind: Kind, ...keys: string[]): readonly PanelSpec[] => PRESETS[kind].filter(({ key }) => keys.includes(key));

/** The names for all kinds of runs, so that the request needs no kind; a run lacks those of other kinds. */
export const namesOfPresets: readonly string[] = [
  ...new Set(
    Object.values(PRESETS)
      .flat()
      .flatMap(({ source }) => namesOf(source)),
  ),
];

export const PRESET_POINTS = 240;

type Early = { runs: string[]; axis: MetricAxis; span?: Span };

/** The request of all default charts, also before the kind of the run is known. */
export const presetLinesQuery = (view: Early) => linesQuery({ ...view, names: namesOfPresets, points: PRESET_POINTS });
