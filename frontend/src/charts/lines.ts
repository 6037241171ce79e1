/** Lines of metrics on a common x: smoothing, styles, mean and spread. Pure. */

import type { MetricLine } from "@/api/types";
import type { Column } from "@/charts/columns";
import { lineStyleAt } from "@/charts/lineStyles";
import type { Line, Sheet } from "@/charts/model";
import { number } from "@/format";

/** The plotted fields of a line. */
export type Buckets = Pick<MetricLine, "x" | "last" | "min" | "max" | "mean" | "is_exact">;

export type Drawn = {
  x: number[];
  /** One column per line, on the common x. */
  last: Column[];
  /** Min and max of a single line whose buckets hold several samples. */
  band: { low: Column; high: Column } | null;
};

/** Merge lines on one ascending x. A missing bucket is undefined; a non-finite value is a gap. */
export function drawn(lines: Buckets[]): Drawn {
  const x = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
  const place = new Map(x.map((value, i) => [value, i]));
  const spread = (line: Buckets, values: (number | null)[]): Column => {
    const column: Column = new Array(x.length).fill(undefined);
    line.x.forEach((value, i) => {
      column[place.get(value) as number] = values[i] ?? null;
    });
    return column;
  };
  const only = lines.length === 1 ? lines[0] : undefined;
  const band = only && !only.is_exact ? { low: spread(only, only.min), high: spread(only, only.max) } : null;
  return { x, last: lines.map((line) => spread(line, line.last)), band };
}

/**
 * Return the exponential moving average with bias correction.
 *
 * Gaps stay gaps and are excluded; `weight` is in [0, 1), 0 means no smoothing.
 */
export function smoothed(values: Column, weight: number): Column {
  let sum = 0;
  let total = 0;
  return values.map((value) => {
    if (value === null || value === undefined) return value;
    sum = weight * sum + (1 - weight) * value;
    total = weight * total + (1 - weight);
    return sum / total;
  });
}

/** Rows of the plotted data: one for each bucket of each line. */
export function bucketSheet(lines: MetricLine[], axis: string): Sheet {
  const rows = lines.flatMap((line) =>
    line.x.map((x, i) => {
      const one = line.last[i];
      const own = line.is_exact
        ? [one, one, one, 1, one === null ? 1 : 0]
        : [line.min[i], line.max[i], line.mean[i], line.count[i], line.gaps[i] ?? 0];
      return [line.run, line.name, x, one, ...own];
    }),
  );
  return { head: ["run", "name", axis, "last", "min", "max", "mean", "count", "gaps"], rows, place: 2 };
}

const MOMENT_SECONDS = 1e-3;

/** The width of a bucket as text, empty for samples; `unit` is that of the axis in the plural, or `s`. */
export function widthOf(lines: MetricLine[], unit: string): string {
  if (lines.every((line) => line.is_exact)) return "";
  const bucket = lines.reduce((widest, line) => Math.max(widest, line.bucket), 0);
  if (unit === "s" && bucket < MOMENT_SECONDS) return "every sample; those of one moment share a point";
  if (unit !== "s" && bucket <= 1) return "every sample; those of one step share a point";
  return `each point covers ${number(bucket)} ${unit}`;
}

/** The number of non-finite samples as text; empty if none. */
export function gapsOf(lines: MetricLine[]): string {
  const nans = lines.reduce((sum, line) => sum + line.nans, 0);
  const infinities = lines.reduce((sum, line) => sum + line.infinities, 0);
  const parts = [nans > 0 ? `${nans} NaN` : "", infinities > 0 ? `${infinities} infinite` : ""].filter(Boolean);
  return parts.join(", ");
}

type Wanted = {
  /** Weight of the moving average; 0 disables it. */
  smooth: number;
  /** Index of each run in the page's list, which selects its style; defaults to the local index. */
  places?: ReadonlyMap<string, number>;
};

/** One line per run; if smoothed, the samples remain as a thin line behind it. */
export function runLines(runs: string[], columns: Column[], { smooth, places }: Wanted): Line[] {
  const isAlone = runs.length === 1 && !places;
  const own = (i: number, values: Column): Line => {
    const name = runs[i] ?? "";
    // A single run needs no distinguishing style.
    return { label: name, values, ...(isAlone ? { role: 1 as const } : lineStyleAt(places?.get(name) ?? i)) };
  };
  return softened(
    columns.map((values, i) => own(i, values)),
    smooth,
  );
}

/** Lines smoothed by a weight, above their samples as thin lines; unchanged for a weight of 0. */
export function softened(lines: Line[], weight: number): Line[] {
  if (weight === 0) return lines;
  const samples = lines.map(({ label, values, role }): Line => ({ label, entry: label, values, role, thin: true }));
  const soft = lines.map(
    (line): Line => ({ ...line, label: `${line.label}, smoothed`, entry: line.label, values: smoothed(line.values, weight) }),
  );
  return [...samples, ...soft];
}

export type Spread = "deviation" | "range";
export type MeanAndSpread = {
  mean: number /** Standard deviation of a sample (n − 1). */;
  deviation: number | null;
  low: number | null;
  high: number | null;
};

/** Mean, standard deviation, and the ends of the spread; no spread of a single value. */
export function meanAndSpread(values: readonly number[], spread: Spread = "deviation"): MeanAndSpread | null {
  const count = values.length;
  if (count === 0) return null;
  // Divided first, so that sums of large values stay finite.
  const mean = values.reduce((sum, value) => sum + value / count, 0);
  if (count === 1) return { mean, deviation: null, low: null, high: null };
  const deviation = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2 / (count - 1), 0));
  if (spread === "range") return { mean, deviation, low: Math.min(...values), high: Math.max(...values) };
  return { mean, deviation, low: mean - deviation, high: mean + deviation };
}
