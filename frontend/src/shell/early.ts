/** Ask for what a page will need while its code is still on its way: no answer waits for another file. */

import { metricNamesQuery } from "@/api/compare";
import { metricKeysQuery } from "@/api/metrics";
import { queries } from "@/api/queries";
import { runQuery } from "@/api/runs";
import { sessionQuery } from "@/api/session";
import { live, startLive, stopLive } from "@/live/live";
import { type CompareSearch, runsOf } from "@/pages/compare/search";
import type { OverviewSearch } from "@/pages/run/overview/search";

/** What the router tells of a page before it is entered, left, or only pointed at. */
type Way<Search> = { cause: string; preload: boolean; search: Search };
type WayToARun<Search> = Way<Search> & { params: { name: string } };

const isEntered = ({ cause, preload }: Pick<Way<unknown>, "cause" | "preload">): boolean => cause === "enter" && !preload;

/** For how long a topic is kept for the page that is on its way: it watches the topic itself then. */
const KEPT_MS = 15_000;

/** Kept in a browser on which somebody was signed in when it last asked. */
const SIGNED_IN = "rolldeck-signed-in";

function wasSignedIn(): boolean {
  try {
    return localStorage.getItem(SIGNED_IN) !== null;
  } catch {
    return false; // a browser that keeps nothing
  }
}

function keepWhether(isSignedIn: boolean): void {
  try {
    if (isSignedIn) localStorage.setItem(SIGNED_IN, "1");
    else localStorage.removeItem(SIGNED_IN);
  } catch {
    // The next page asks first, that is all.
  }
}

/** Ask who is signed in, and open the socket: at the same time where somebody was signed in before. */
export function askWhoIsHere(): void {
  if (wasSignedIn() && location.pathname !== "/login") startLive();
  void queries
    .ensureQueryData(sessionQuery)
    .then(({ authenticated }) => {
      keepWhether(authenticated);
      (authenticated ? startLive : stopLive)();
    })
    .catch(() => undefined); // the page asks again, and says so
}

/** Ask for all that a run's page shows live. */
export function askForRun(way: Omit<WayToARun<unknown>, "search">): void {
  if (!isEntered(way)) return;
  const leave = live.watch(`run:${way.params.name}`, () => undefined);
  setTimeout(leave, KEPT_MS);
}

/** Ask for the curves of a run's overview. */
export function askForCurves(way: WayToARun<OverviewSearch>): void {
  if (!isEntered(way)) return;
  const run = queries.ensureQueryData(runQuery(way.params.name));
  void Promise.all([run, import("@/pages/run/overview/asking")])
    .then(([found, { askEarly }]) => askEarly(queries, found, way.search))
    .catch(() => undefined); // the page says what is wrong with the run
}

/** Ask for the first names of a run's metrics. */
export function askForMetrics(way: WayToARun<{ q?: string; under?: string }>): void {
  if (isEntered(way)) void queries.prefetchInfiniteQuery(metricKeysQuery(way.params.name, way.search.q ?? "", way.search.under ?? ""));
}

/** Ask for the runs that are compared, and at the same time for what was measured of them. */
export function askForCompared(way: Way<CompareSearch>): void {
  if (!isEntered(way)) return;
  for (const run of runsOf(way.search)) {
    void queries.prefetchQuery(runQuery(run));
    void queries.prefetchQuery(metricNamesQuery(run, ""));
  }
}
