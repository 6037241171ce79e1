/** Convert the server's metric lines to chart columns and text. Pure. */

import type { MetricLine } from "@/api/types";
import type { Column } from "@/charts/columns";
import type { Sheet } from "@/charts/model";
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

/** The width of a bucket as text; `unit` is that of the axis in the plural, or `s`. */
export function widthOf(lines: MetricLine[], unit: string): string {
  if (lines.every((line) => line.is_exact)) return "every sample";
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
