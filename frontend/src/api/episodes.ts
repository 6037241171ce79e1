/** Read recent episodes, summed up by environment. */

import { queryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { EpisodeSummary } from "@/api/types";

const OFTEN_MS = 5000;
const SELDOM_MS = 30_000;

/** The episodes of the last seconds; long windows of a run that goes on are read less often. */
export function episodeSummaryQuery(run: string, seconds: number, goesOn: boolean) {
  return queryOptions({
    queryKey: ["episode-summary", run, seconds],
    queryFn: (): Promise<EpisodeSummary> =>
      body(api.GET("/api/runs/{run}/episodes/summary", { params: { path: { run }, query: { seconds } } })),
    refetchInterval: goesOn ? (seconds > 300 ? SELDOM_MS : OFTEN_MS) : false,
    placeholderData: (shown) => shown,
  });
}
