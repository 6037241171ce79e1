/** API queries for recent episodes, aggregated by environment. */

import { queryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";
import type { EpisodeSummary } from "@/api/types";

type Schemas = components["schemas"];

const FAST_MS = 5000;
const SLOW_MS = 30_000;

/** Episodes of the last `seconds`; long windows of an active run refresh less often. */
export function episodeSummaryQuery(run: string, seconds: number, goesOn: boolean) {
  return queryOptions({
    queryKey: ["episode-summary", run, seconds],
    queryFn: (): Promise<EpisodeSummary> =>
      body(api.GET("/api/v1/runs/{run}/episodes/summary", { params: { path: { run }, query: { seconds } } })),
    refetchInterval: goesOn ? (seconds > 300 ? SLOW_MS : FAST_MS) : false,
    placeholderData: (shown) => shown,
  });
}

export type EpisodeSpread = Schemas["EpisodeSpread"];
export type Measure = EpisodeSpread["of"];
type AskedSpread = { of: Measure; task?: string; mode?: "train" | "eval" };

/** Distribution of returns or lengths over the life of a run. */
export function episodeSpreadQuery(run: string, asked: AskedSpread, goesOn: boolean) {
  return queryOptions({
    queryKey: ["episode-spread", run, asked],
    queryFn: (): Promise<EpisodeSpread> =>
      body(api.GET("/api/v1/runs/{run}/episodes/distribution", { params: { path: { run }, query: asked } })),
    refetchInterval: goesOn && SLOW_MS,
    placeholderData: (shown) => shown,
  });
}
