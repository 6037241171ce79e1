/** Turn the server's lines into the columns of a chart, and into text to take along. Pure. */

import type { MetricLine } from "@/api/metrics";
import type { Column } from "@/charts/columns";
import type { Sheet } from "@/charts/sheet";
import { number } from "@/format";

/** What of a line is drawn. */
export type Buckets = Pick<MetricLine, "x" | "last" | "min" | "max" | "mean" | "is_exact">;

export type Drawn = {
  x: number[];
  /** One column a line, on the common x. */
  last: Column[];
  /** Of the first line where it stands alone and has buckets of several samples. */
  band: { low: Column; high: Column } | null;
};

/** Put lines on one x, rising; where a line has no bucket it says nothing, where one is not finite it has a gap. */
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
 * Return the exponential moving average, without the pull towards zero at its beginning.
 *
 * A gap stays a gap and is not averaged; `weight` is 0 (nothing) to below 1.
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

/** The rows of what is drawn: one for each bucket of each line. */
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

/** How much of the x axis a point stands for, in words; `unit` is that of the axis in the plural, or `s`. */
export function widthOf(lines: MetricLine[], unit: string): string {
  if (lines.every((line) => line.is_exact)) return "every sample";
  const bucket = lines.reduce((widest, line) => Math.max(widest, line.bucket), 0);
  if (unit === "s" && bucket < MOMENT_SECONDS) return "each point the samples of one moment";
  const word = bucket === 1 && unit !== "s" ? unit.replace(/s$/, "") : unit;
  return `each point ${number(bucket)} ${word} wide`;
}

/** How many samples are not finite, in words; empty without any. */
export function gapsOf(lines: MetricLine[]): string {
  const nans = lines.reduce((sum, line) => sum + line.nans, 0);
  const infinities = lines.reduce((sum, line) => sum + line.infinities, 0);
  const parts = [nans > 0 ? `${nans} NaN` : "", infinities > 0 ? `${infinities} infinite` : ""].filter(Boolean);
  return parts.join(", ");
}
