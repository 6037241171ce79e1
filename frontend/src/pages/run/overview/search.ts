/** URL parameters of the overview. Pure. */

import type { MetricAxis } from "@/api/types";
import { type MetricsSearch, metricsSearch } from "@/pages/run/metrics/search";
import { type Range, rangeOf } from "@/pages/run/overview/range";

export type OverviewSearch = Pick<MetricsSearch, "from" | "to" | "smooth" | "pick" | "at" | "since"> & {
  /** Defaults to time. */
  x?: Exclude<MetricAxis, "time" | "elapsed">;
  /** Time range in seconds; defaults to the entire run. */
  last?: Range;
};

/** Parse search parameters; invalid values are dropped. */
export function overviewSearch(search: Record<string, unknown>): OverviewSearch {
  const x = search.x === "step" || search.x === "amount" ? search.x : undefined;
  const { from, to, smooth, pick, at, since } = metricsSearch({ ...search, x });
  // A zoomed chart does not follow new data.
  const last = x === undefined && from === undefined ? rangeOf(search.last) : undefined;
  return { x, last, from, to, smooth, pick, at, since };
}
