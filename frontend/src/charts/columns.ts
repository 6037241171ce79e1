/** Convert rows of a series to chart columns. Pure. */

import type { EpisodeRow } from "@/api/types";

export type Axis = "time" | "env_steps" | "served_steps";
/** Null is a gap; undefined is a missing value that the line spans. */
export type Column = (number | null | undefined)[];

/** A column with values between its samples, on straight lines; none across a gap or beyond its ends. */
export function interpolated(x: readonly number[], values: Column): (number | null)[] {
  const found: (number | null)[] = values.map((value) => value ?? null);
  let before: number | null = null;
  values.forEach((value, i) => {
    if (value === undefined) return;
    if (value !== null && before !== null) {
      const [from, low] = [x[before] ?? 0, values[before] as number];
      for (let at = before + 1; at < i; at += 1) found[at] = low + ((value - low) * ((x[at] ?? 0) - from)) / ((x[i] ?? 0) - from);
    }
    before = value === null ? null : i;
  });
  return found;
}

export type EpisodeColumns = {
  x: number[];
  mean: Column;
  min: Column;
  max: Column;
  recent: Column;
  length: Column;
  lengthMax: Column;
  version: Column;
};

const PLACE: Record<Axis, (row: EpisodeRow) => number> = {
  time: (row) => Date.parse(row.at) / 1000,
  env_steps: (row) => row.env_steps_total,
  served_steps: (row) => row.served_steps,
};

type Bucket = { x: number; count: number; returns: number; min: number; max: number; lengths: number; lengthMax: number; last: EpisodeRow };

function begin(x: number, row: EpisodeRow): Bucket {
  return { x, count: 0, returns: 0, min: Infinity, max: -Infinity, lengths: 0, lengthMax: 0, last: row };
}

function add(bucket: Bucket, row: EpisodeRow): void {
  bucket.count += row.count;
  bucket.returns += row.return_mean * row.count;
  bucket.lengths += row.length_mean * row.count;
  bucket.min = Math.min(bucket.min, row.return_min);
  bucket.max = Math.max(bucket.max, row.return_max);
  bucket.lengthMax = Math.max(bucket.lengthMax, row.length_max);
  bucket.last = row;
}

/**
 * Return the columns of the episode charts, with x ascending.
 *
 * Rows with the same x (several workers, or several windows of one train step) merge into one point:
 * means weighted by episodes, and the exact minimum and maximum return, so that no spike disappears.
 */
export function episodeColumns(rows: EpisodeRow[], axis: Axis): EpisodeColumns {
  const buckets = new Map<number, Bucket>();
  for (const row of rows) {
    const x = PLACE[axis](row);
    if (row.count <= 0 || !Number.isFinite(x)) continue;
    const bucket = buckets.get(x) ?? begin(x, row);
    add(bucket, row);
    buckets.set(x, bucket);
  }
  const points = [...buckets.values()].sort((a, b) => a.x - b.x);
  return {
    x: points.map((p) => p.x),
    mean: points.map((p) => p.returns / p.count),
    min: points.map((p) => p.min),
    max: points.map((p) => p.max),
    recent: points.map((p) => p.last.recent_return_mean),
    length: points.map((p) => p.lengths / p.count),
    lengthMax: points.map((p) => p.lengthMax),
    version: points.map((p) => p.last.policy_step),
  };
}
