/** What the overview keeps in its address. Pure. */

import type { MetricAxis } from "@/api/metrics";
import { type MetricsSearch, metricsSearch } from "@/pages/run/metrics/search";
import { type Range, rangeOf } from "@/pages/run/overview/range";

export type OverviewSearch = Pick<MetricsSearch, "from" | "to" | "pick" | "at" | "since"> & {
  /** Absent: time. */
  x?: Exclude<MetricAxis, "time" | "elapsed">;
  /** Seconds that are looked back over time; absent: to where the run began. */
  last?: Range;
};

/** Read an address; what makes no sense is left out. */
export function overviewSearch(search: Record<string, unknown>): OverviewSearch {
  const x = search.x === "step" || search.x === "amount" ? search.x : undefined;
  const { from, to, pick, at, since } = metricsSearch({ ...search, x });
  // Who looks closer at a part looks no longer at what comes.
  const last = x === undefined && from === undefined ? rangeOf(search.last) : undefined;
  return { x, last, from, to, pick, at, since };
}
