/** What the overview keeps in its address. Pure. */

import type { MetricAxis } from "@/api/metrics";
import { metricsSearch, type MetricsSearch } from "@/pages/run/metrics/search";

export type OverviewSearch = Pick<MetricsSearch, "from" | "to" | "pick" | "at" | "since"> & {
  /** Absent: time. */
  x?: Exclude<MetricAxis, "time" | "elapsed">;
};

/** Read an address; what makes no sense is left out. */
export function overviewSearch(search: Record<string, unknown>): OverviewSearch {
  const x = search.x === "step" || search.x === "amount" ? search.x : undefined;
  const { from, to, pick, at, since } = metricsSearch({ ...search, x });
  return { x, from, to, pick, at, since };
}
