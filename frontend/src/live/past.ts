/** Fetch the rows that ended before the socket's window begins, so that a curve starts where it did. */

import { useEffect } from "react";
import { api, body } from "@/api/client";
import { live } from "@/live/live";

/** The server's page size; older rows stay on the server and the charts say so. */
export const PAST_ROWS = 2000;

const EVENT_PAGES = 5;

/** Page back through the events, a little way: the rare ones are easily pushed out of the window. */
async function fetchPastEvents(run: string, topic: string): Promise<void> {
  for (let page = 0; page < EVENT_PAGES; page += 1) {
    const before = live.read(topic).series.events?.[0]?.id;
    if (before === undefined) return;
    const query = { before, limit: 200 };
    const { results } = await body(api.GET("/api/runs/{run}/events", { params: { path: { run }, query } }));
    if (results.length === 0) return;
    live.addPast(topic, "events", [...results].reverse());
  }
}

async function fetchPastEpisodes(run: string, topic: string): Promise<void> {
  const params = { path: { run }, query: { limit: PAST_ROWS } };
  const episodes = await body(api.GET("/api/runs/{run}/episodes", { params }));
  live.addPast(topic, "episodes", episodes.results);
}

/** Complete the events of a run's topic once its first snapshot is here. */
export function usePastEvents(run: string, topic: string, isShown: boolean): void {
  useEffect(() => {
    // Without the past the page is shorter, not wrong.
    if (isShown) void fetchPastEvents(run, topic).catch(() => undefined);
  }, [run, topic, isShown]);
}

/** Complete the episodes of a run's topic, for charts that draw one by one: up to 360 kB. */
export function usePastEpisodes(run: string, topic: string): void {
  useEffect(() => void fetchPastEpisodes(run, topic).catch(() => undefined), [run, topic]);
}
