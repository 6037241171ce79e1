/** API queries for the events of a run and the logs of its fleet. */

import { api, ask, body, pagesOf } from "@/api/client";

/** A worker and one of its env slots. A null worker is the manager or any worker; a null slot is any slot. */
export type FleetPlace = { worker: number | null; slot: number | null };

const FOLLOW_MS = 1500;
const EVENTS_PER_PAGE = 100;

/** The newest lines of a process; read again while they are followed. */
export function logQuery(run: string, { worker, slot }: FleetPlace, lines: number, follows: boolean) {
  const query = { worker: worker ?? undefined, slot: slot ?? undefined, lines };
  return ask(
    ["fleet-log", run, worker, slot, lines],
    () => api.GET("/api/v1/runs/{run}/fleet/logs", { params: { path: { run }, query } }),
    { refetchInterval: follows ? FOLLOW_MS : false, placeholderData: (shown) => shown, retry: false },
  );
}

/** Events of a run, newest first; of all kinds by default. */
export const eventsQuery = (run: string, kinds: string | undefined) =>
  pagesOf(["events", run, kinds], (cursor) =>
    body(api.GET("/api/v1/runs/{run}/events", { params: { path: { run }, query: { limit: EVENTS_PER_PAGE, cursor, kinds } } })),
  );
