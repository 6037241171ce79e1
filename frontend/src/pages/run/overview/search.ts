/** What the overview keeps in its address. Pure. */

import type { MetricAxis } from "@/api/metrics";
import { metricsSearch } from "@/pages/run/metrics/search";

export type OverviewSearch = {
  /** Absent: time. */
  x?: Exclude<MetricAxis, "time">;
  from?: number;
  to?: number;
};

/** Read an address; what makes no sense is left out. */
export function overviewSearch(search: Record<string, unknown>): OverviewSearch {
  const { from, to } = metricsSearch(search);
  return { x: search.x === "step" || search.x === "amount" ? search.x : undefined, from, to };
}
