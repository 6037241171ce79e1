/** Lines of metrics as the server describes them. */

import type { MetricLine } from "@/api/types";

/** A line of exact samples, or of buckets if `more` has their columns. */
export function lineOf(run: string, name: string, x: number[], last: (number | null)[], more: Partial<MetricLine> = {}): MetricLine {
  return {
    run,
    name,
    samples: x.length,
    nans: 0,
    infinities: 0,
    bucket: 1,
    is_exact: true,
    x,
    last,
    x_first: [],
    min: [],
    max: [],
    mean: [],
    count: [],
    gaps: [],
    ...more,
  };
}
