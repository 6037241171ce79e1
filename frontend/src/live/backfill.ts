/** Backfill events older than the window of the socket. */

import { useEffect } from "react";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";
import { live } from "@/live/live";

type Schemas = components["schemas"];

const EVENTS_PER_PAGE = 200;
const EVENT_PAGES = 6;

/** Fetch a few pages of events: frequent events push rare ones out of the window. */
async function backfillEvents(run: string, topic: string): Promise<void> {
  // The window of a run with fewer events holds all of them.
  if ((live.read(topic).series.events?.length ?? 0) < EVENTS_PER_PAGE) return;
  let cursor: string | undefined;
  for (let page = 0; page < EVENT_PAGES; page += 1) {
    const query = { cursor, limit: EVENTS_PER_PAGE };
    const events: Schemas["EventList"] = await body(api.GET("/api/v1/runs/{run}/events", { params: { path: { run }, query } }));
    live.addBackfill(topic, "events", [...events.results].reverse());
    if (events.next === null) return;
    cursor = events.next;
  }
}

/** Backfill the events of a run's topic after its first snapshot. */
export function useEventBackfill(run: string, topic: string, isShown: boolean): void {
  useEffect(() => {
    // On failure the page shows less history, which is still correct.
    if (isShown) void backfillEvents(run, topic).catch(() => undefined);
  }, [run, topic, isShown]);
}
