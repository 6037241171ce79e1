/** API query for the context of a run at a point of a chart. */

import { queryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";
import type { MetricAxis } from "@/api/types";

export type PointDetails = components["schemas"]["MetricContext"];
export type PointBatch = components["schemas"]["ContextBatch"];

export type PointRange = { name: string; axis: MetricAxis; from: number; to: number };
/** Times have microsecond resolution; floating-point seconds lose the last digit. */
const ROUNDED_SECONDS = 1e-6;

export function pointDetailsQuery(run: string, { name, axis, from, to }: PointRange) {
  const isElapsed = axis === "elapsed";
  const slack = isElapsed || axis === "time" ? ROUNDED_SECONDS : 0;
  const query = { name, x: axis, from: Math.max(isElapsed ? -Infinity : 0, from - slack), to: to + slack };
  return queryOptions({
    queryKey: ["metric-point", run, query],
    queryFn: (): Promise<PointDetails> => body(api.GET("/api/v1/runs/{run}/metrics/context", { params: { path: { run }, query } })),
    retry: false,
  });
}
