/** The eight curves that say how a run is, in the words of its kind. Pure. */

import type { MetricLine } from "@/api/metrics";
import type { RunDetail } from "@/api/types";
import type { ChartProps, Line } from "@/charts/Chart";
import type { Column } from "@/charts/columns";
import { type Buckets, drawn } from "@/charts/lines";
import type { Watchable } from "@/pages/alerts/rules/useAlertWhen";
import { wordsOf } from "@/pages/run/words";

/** Of the names that the deck itself measures under. */
export const OWN = "rolldeck/";

export type Curve = Pick<Line, "label" | "role" | "thin" | "dashed"> & {
  name: string;
  /** Where a point stands for several samples, what it shows of them; the mean if absent. */
  of?: "max";
};

export type Curated = {
  key: string;
  title: string;
  note: string;
  /** The first one's newest value stands at the head. */
  curves: Curve[];
  band?: { low: string; high: string; label: string };
  /** What the values are multiplied by. */
  scale?: number;
  unit?: string;
  floor?: number;
  /** What the y axis shows at least, from its floor on. */
  least?: number;
  empty: string;
  isWide?: boolean;
  isTall?: boolean;
};

const PERCENT = { scale: 100, unit: "%", floor: 0 };
const SLOWEST = 0.05;

const reward = (kind: RunDetail["kind"]): Curated => ({
  key: "reward",
  title: kind === "fleet" ? "Return" : "Reward",
  note: kind === "fleet" ? "of training episodes, by when they ended" : "mean score of a group, by when it came in",
  curves: [
    { name: "reward/mean", label: "mean", role: 1 },
    { name: "reward/p50", label: "median", role: 2, thin: true, dashed: true },
  ],
  band: { low: "reward/p10", high: "reward/p90", label: "p10 – p90" },
  empty: kind === "fleet" ? "No training episode has ended yet." : "No group has come in yet.",
  isWide: true,
  isTall: true,
});

const queue = (kind: RunDetail["kind"]): Curated => ({
  key: "queue",
  title: "Queue depth",
  note: `in ${kind === "fleet" ? "fragments" : "sequences"}`,
  curves: [
    { name: "queue/depth", label: "queued", role: 1, of: "max" },
    { name: "queue/threshold", label: "producers pause above", role: 2, thin: true, dashed: true },
  ],
  floor: 0,
  empty: "Nothing was queued yet.",
  isTall: true,
});

const staleness: Curated = {
  key: "staleness",
  title: "Staleness",
  note: "versions behind when handed out",
  curves: [
    { name: "staleness/p50", label: "median", role: 1 },
    { name: "staleness/p95", label: "95th percentile", role: 4, thin: true, of: "max" },
  ],
  floor: 0,
  empty: "No batch was handed out yet.",
};

const flow = (kind: RunDetail["kind"]): Curated => ({
  key: "flow",
  title: kind === "fleet" ? "Fragments in and out" : "Groups in and out",
  note: "per second",
  curves: [
    { name: "accepted_per_second", label: "came in", role: 1 },
    { name: "served_per_second", label: "handed out", role: 2, dashed: true },
  ],
  floor: 0,
  least: SLOWEST,
  empty: "Nothing came in yet.",
});

const waits = (kind: RunDetail["kind"]): Curated => ({
  key: "waits",
  title: "Who waits",
  note: "% of the time",
  curves: [
    { name: "trainer/waiting_share", label: "trainer, for data", role: 1 },
    ...(kind === "outside" ? [] : [{ name: "fleet/waiting_share", label: "workers, for room", role: 2, dashed: true } as const]),
  ],
  ...PERCENT,
  empty: "No trainer has asked for a batch yet.",
});

const lost = (kind: RunDetail["kind"]): Curated =>
  kind === "fleet"
    ? {
        key: "truncated",
        title: "Truncated",
        note: "% of training episodes",
        curves: [{ name: "truncated_share", label: "truncated", role: 4 }],
        ...PERCENT,
        empty: "No training episode has ended yet.",
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
        empty: "No group has come in yet.",
      };

const LENGTHS: Record<RunDetail["kind"], [string, string, string]> = {
  fleet: ["Episode length", "env steps", "No training episode has ended yet."],
  language: ["Answer length", "tokens", "No episode has ended yet."],
  outside: ["Sequence length", "tokens, prompt included", "No group has come in yet."],
};

const length = (kind: RunDetail["kind"]): Curated => ({
  key: "length",
  title: LENGTHS[kind][0],
  note: LENGTHS[kind][1],
  curves: [
    { name: "length/mean", label: "mean", role: 1 },
    { name: "length/max", label: "longest", role: 4, thin: true, of: "max" },
  ],
  floor: 0,
  empty: LENGTHS[kind][2],
});

const throughput = (kind: RunDetail["kind"]): Curated => ({
  key: "throughput",
  title: "Throughput",
  note: kind === "fleet" ? `${wordsOf(kind).works} per second` : "tokens handed out per second",
  curves: [
    {
      name: kind === "fleet" ? "env_steps_per_second" : "tokens_per_second",
      label: kind === "fleet" ? "env steps/s" : "tokens/s",
      role: 3,
    },
  ],
  floor: 0,
  least: SLOWEST,
  empty: kind === "fleet" ? "No env step was made yet." : "No batch was handed out yet.",
});

const all = (kind: RunDetail["kind"]): readonly Curated[] => [
  reward(kind),
  queue(kind),
  staleness,
  flow(kind),
  waits(kind),
  lost(kind),
  length(kind),
  throughput(kind),
];
const CURATED = { fleet: all("fleet"), language: all("language"), outside: all("outside") };

/** The curves of runs of a kind; the same ones each time. */
export const curatedOf = (kind: RunDetail["kind"]): readonly Curated[] => CURATED[kind];

/** All names that a chart is drawn from, the deck's prefix before each. */
export function namesOf({ curves, band }: Curated): string[] {
  const names = [...curves.map(({ name }) => name), ...(band ? [band.low, band.high] : [])];
  return names.map((name) => OWN + name);
}

/** Of the curves of every kind of run: who asks need not know the kind first. A run has none of the others'. */
export const namesOfAll: readonly string[] = [...new Set(Object.values(CURATED).flat().flatMap(namesOf))];

/** A line as one column: the mean, or the greatest, of the samples of each point. */
function condensed(line: Buckets, of: Curve["of"]): Buckets {
  const values = of === "max" ? line.max : line.mean;
  return line.is_exact || values.length !== line.x.length ? line : { ...line, last: values };
}

const NOTHING: Buckets = { x: [], last: [], min: [], max: [], mean: [], is_exact: true };

export type Drawing = Pick<ChartProps, "x" | "lines" | "band"> & {
  /** The newest value of the first curve. */
  newest: number | null;
};

/** The last sample itself, whatever its point stands for. */
function newestOf(line: MetricLine | undefined, scale: number): number | null {
  const value = line?.last.findLast((one) => typeof one === "number");
  return typeof value === "number" ? value * scale : null;
}

/** Put the lines of a chart into columns, and the band between the two that bound it. */
export function drawing(chart: Curated, found: MetricLine[]): Drawing {
  const { curves, band, scale = 1 } = chart;
  const byName = new Map(found.map((line) => [line.name, line]));
  const wanted: [string, Curve["of"]][] = [...curves.map(({ name, of }): [string, Curve["of"]] => [name, of])];
  if (band) wanted.push([band.low, undefined], [band.high, undefined]);
  const { x, last } = drawn(wanted.map(([name, of]) => condensed(byName.get(OWN + name) ?? NOTHING, of)));
  const columns = last.map((column) => column.map((value) => (typeof value === "number" ? value * scale : null)));
  const lines = curves.map(({ name, of, ...look }, i): Line => ({ ...look, values: columns[i] as Column }));
  const [low, high] = columns.slice(curves.length);
  return {
    x,
    lines: lines.filter((line, i) => i === 0 || line.values.some((value) => value !== null)),
    band: band && low && high ? { low, high, label: band.label } : undefined,
    newest: newestOf(byName.get(OWN + (curves[0]?.name ?? "")), scale),
  };
}

/** The metrics behind the curves of a chart, each with its value where the cursor was, as it is measured; the newest before. */
export function watchablesOf(chart: Curated, run: string, { lines }: Pick<Drawing, "lines">): Watchable[] {
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

/** When to ask again: where a point stands for several samples, one more changes little. */
export function askAgainMs(found: MetricLine[] | undefined): number {
  return found?.some((line) => !line.is_exact) ? LATER_MS : SOON_MS;
}
