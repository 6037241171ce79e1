/** API query for the context of a run at a point of a chart. */

import { queryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";
import type { MetricAxis } from "@/api/types";

export type Moment = components["schemas"]["Moment"];
export type MomentBatch = components["schemas"]["MomentBatch"];

export type Place = { name: string; axis: MetricAxis; from: number; to: number };
/** Times have microsecond resolution; floating-point seconds lose the last digit. */
const ROUNDED_SECONDS = 1e-6;

export function momentQuery(run: string, { name, axis, from, to }: Place) {
  const isElapsed = axis === "elapsed";
  const slack = isElapsed || axis === "time" ? ROUNDED_SECONDS : 0;
  const query = { name, x: axis, from: Math.max(isElapsed ? -Infinity : 0, from - slack), to: to + slack };
  return queryOptions({
    queryKey: ["moment", run, query],
    queryFn: (): Promise<Moment> => body(api.GET("/api/runs/{run}/metrics/moment", { params: { path: { run }, query } })),
    retry: false,
  });
}
