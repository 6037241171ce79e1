/** The eight default charts of a run, by its kind. Pure. */

import { BUILTIN_RETURN } from "@/api/metrics";
import type { MetricLine, RunDetail } from "@/api/types";
import type { Column } from "@/charts/columns";
import { type Buckets, drawn } from "@/charts/lines";
import type { ChartProps, Line } from "@/charts/model";
import type { Watchable } from "@/pages/alerts/rules/useAlertWhen";
import { returnsFirst, titleOf } from "@/pages/run/metricOrder";
import { wordsOf } from "@/pages/run/words";

/** Prefix of the built-in metrics. */
export const OWN = "rolldeck/";

export type Curve = Pick<Line, "label" | "role" | "thin" | "dashed" | "dash" | "marker"> & {
  name: string;
  /** Aggregation of a point's samples; defaults to the mean. */
  of?: "max";
};

export type DefaultChart = {
  key: string;
  title: string;
  note: string;
  /** The newest value of the first curve is shown in the title. */
  curves: Curve[];
  band?: { low: string; high: string; label: string };
  /** A metric that is 0 where the others begin a gap. */
  gapsAt?: string;
  /** True if the first curve does not stand for the others, so its newest value is not shown. */
  hasEqualCurves?: boolean;
  /** Factor applied to the values. */
  scale?: number;
  unit?: string;
  floor?: number;
  /** Minimum extent of the y axis above the floor. */
  least?: number;
  empty: string;
  isWide?: boolean;
  isTall?: boolean;
};

const PERCENT = { scale: 100, unit: "%", floor: 0 };
const SLOWEST = 0.05;

const reward = (kind: RunDetail["kind"]): DefaultChart => ({
  key: "reward",
  title: titleOf([kind], BUILTIN_RETURN) ?? BUILTIN_RETURN,
  note: kind === "outside" ? "mean score of the groups of each train step" : "mean of the last 20 training episodes, by train step",
  curves: [
    { name: "reward/mean", label: "mean", role: 1 },
    { name: "reward/p50", label: "median", role: 2, thin: true, dashed: true },
  ],
  band: { low: "reward/p10", high: "reward/p90", label: "p10 – p90" },
  empty: kind === "outside" ? "No groups received yet." : "No finished training episodes yet.",
  isWide: true,
  isTall: true,
});

const queue = (kind: RunDetail["kind"]): DefaultChart => ({
  key: "queue",
  title: "Queue depth",
  note: `in ${kind === "fleet" ? "fragments" : "sequences"}`,
  curves: [
    { name: "queue/depth", label: "queued", role: 1, of: "max" },
    { name: "queue/threshold", label: "pause threshold", role: 2, thin: true, dashed: true },
  ],
  floor: 0,
  empty: "The queue has been empty so far.",
  isTall: true,
});

const staleness: DefaultChart = {
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

const flow = (kind: RunDetail["kind"]): DefaultChart => ({
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

const waits = (kind: RunDetail["kind"]): DefaultChart => ({
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

const lost = (kind: RunDetail["kind"]): DefaultChart =>
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

const LENGTHS: Record<RunDetail["kind"], [string, string, string]> = {
  fleet: ["Episode length", "env steps", "No finished training episodes yet."],
  language: ["Answer length", "tokens", "No finished episodes yet."],
  outside: ["Sequence length", "tokens, including the prompt", "No groups received yet."],
};

const length = (kind: RunDetail["kind"]): DefaultChart => ({
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

const throughput = (kind: RunDetail["kind"]): DefaultChart => ({
  key: "throughput",
  title: "Throughput",
  note: kind === "fleet" ? `${wordsOf(kind).works} per second` : "tokens leased per second",
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

const all = (kind: RunDetail["kind"]): readonly DefaultChart[] =>
  returnsFirst(
    [kind],
    [queue(kind), reward(kind), staleness, flow(kind), waits(kind), lost(kind), length(kind), throughput(kind)],
    ({ curves }) => OWN + (curves[0]?.name ?? ""),
  );
const DEFAULT_CHARTS = { fleet: all("fleet"), language: all("language"), outside: all("outside") };

/** The charts of a kind of run; a stable reference. */
export const defaultChartsOf = (kind: RunDetail["kind"]): readonly DefaultChart[] => DEFAULT_CHARTS[kind];

/** All metric names of a chart, with the built-in prefix. */
export function namesOf({ curves, band, gapsAt }: DefaultChart): string[] {
  const names = [...curves.map(({ name }) => name), ...(band ? [band.low, band.high] : []), ...(gapsAt ? [gapsAt] : [])];
  return names.map((name) => OWN + name);
}

/** The names for all kinds of runs, so that the request needs no kind; a run lacks those of other kinds. */
export const namesOfAll: readonly string[] = [...new Set(Object.values(DEFAULT_CHARTS).flat().flatMap(namesOf))];

/** A line as one column: the mean or maximum of each point's samples. */
function condensed(line: Buckets, of: Curve["of"]): Buckets {
  const values = of === "max" ? line.max : line.mean;
  return line.is_exact || values.length !== line.x.length ? line : { ...line, last: values };
}

const NOTHING: Buckets = { x: [], last: [], min: [], max: [], mean: [], is_exact: true };

/** Distance of a gap from its sample, smaller than any between two samples. */
const BEHIND = 1e-3;

/** Empty points behind each zero of a line, at which the other lines of the chart break. */
function gapsOf(line: Buckets | undefined): Buckets {
  if (!line) return NOTHING;
  const lowest = line.is_exact ? line.last : line.min;
  const x = line.x.filter((_, i) => lowest[i] === 0).map((at) => at + BEHIND);
  return { ...NOTHING, x, last: x.map(() => null) };
}

export type Drawing = Pick<ChartProps, "x" | "lines" | "band"> & {
  /** The newest value of the first curve. */
  newest: number | null;
};

/** The last sample itself, regardless of bucketing. */
export function newestOf(line: MetricLine | undefined, scale = 1): number | null {
  const value = line?.last.findLast((one) => typeof one === "number");
  return typeof value === "number" ? value * scale : null;
}

/** Convert the lines of a chart to columns, with the band between its two bounds. */
export function drawing(chart: DefaultChart, found: MetricLine[]): Drawing {
  const { curves, band, gapsAt, scale = 1 } = chart;
  const byName = new Map(found.map((line) => [line.name, line]));
  const gaps = gapsAt ? [gapsOf(byName.get(OWN + gapsAt))] : [];
  const wanted: [string, Curve["of"]][] = [...curves.map(({ name, of }): [string, Curve["of"]] => [name, of])];
  if (band) wanted.push([band.low, undefined], [band.high, undefined]);
  const own = wanted.map(([name, of]) => condensed(byName.get(OWN + name) ?? NOTHING, of));
  const isEmpty = own.every((line) => line.x.length === 0);
  const { x, last } = drawn(isEmpty ? own : [...own, ...gaps]);
  const columns = last.map((column) => column.map((value) => (typeof value === "number" ? value * scale : null)));
  const lines = curves.map(({ name, of, ...look }, i): Line => ({ ...look, values: columns[i] as Column }));
  const [low, high] = band ? columns.slice(curves.length) : [];
  return {
    x,
    lines: lines.filter((line, i) => i === 0 || line.values.some((value) => value !== null)),
    band: band && low && high ? { low, high, label: band.label } : undefined,
    newest: newestOf(byName.get(OWN + (curves[0]?.name ?? "")), scale),
  };
}

/** The metrics of a chart's curves for alert rules, each with its unscaled value at the cursor, by default the newest. */
export function watchablesOf(chart: DefaultChart, run: string, { lines }: Pick<Drawing, "lines">): Watchable[] {
  const { curves, scale = 1 } = chart;
  return curves.map(({ name, label }) => {
    const values = lines.find((line) => line.label === label)?.values ?? [];
    const valueAt = (index: number | null) => {
      const value = index === null ? values.findLast((one) => typeof one === "number") : values[index];
      return typeof value === "number" ? value / scale : null;
    };
    return { metric: OWN + name, run, label, valueAt };
  });
}

const SOON_MS = 10_000;
const LATER_MS = 30_000;

/** Refetch interval: longer if points are buckets, which change little per sample. */
export function askAgainMs(found: MetricLine[] | undefined): number {
  return found?.some((line) => !line.is_exact) ? LATER_MS : SOON_MS;
}
