/** Ask for what a page will need while its code is still on its way: no answer waits for another file. */

import { metricNamesQuery } from "@/api/compare";
import { metricKeysQuery } from "@/api/metrics";
import { queries } from "@/api/queries";
import { runQuery } from "@/api/runs";
import { sessionQuery } from "@/api/session";
import { live, startLive, stopLive } from "@/live/live";
import { codeAt } from "@/pages/code";
import { type CompareSearch, runsOf } from "@/pages/compare/search";
import { earlyCurvesQuery } from "@/pages/run/overview/asking";
import type { OverviewSearch } from "@/pages/run/overview/search";
import { type RunAddress, runAt } from "@/shell/addresses";

/** What the router tells of a page before it is entered, left, or only pointed at. */
type Way<Search> = { cause: string; preload: boolean; search: Search };
type WayToARun<Search> = Way<Search> & { params: { name: string } };

const isEntered = ({ cause, preload }: Pick<Way<unknown>, "cause" | "preload">): boolean => cause === "enter" && !preload;

/** For how long a topic is kept for the page that is on its way: it watches the topic itself then. */
const KEPT_MS = 15_000;

/** Whether the server saw a session's cookie when it sent the page. */
const hasSession = (): boolean => "session" in document.documentElement.dataset;

/** Ask who is signed in, open the socket, and ask for the page of an address: before there is any code that draws. */
export function askAhead({ pathname, search }: Pick<Location, "pathname" | "search">): void {
  const isSignedIn = hasSession();
  if (isSignedIn && pathname !== "/login") startLive();
  void queries
    .ensureQueryData(sessionQuery)
    .then(({ authenticated }) => (authenticated ? startLive : stopLive)())
    .catch(() => undefined); // the page asks again, and says so
  if (!isSignedIn) return;
  for (const load of codeAt(pathname)) void load();
  const about = runAt(pathname);
  if (about) askForRunAt(about, search);
}

function askForRunAt({ name, tab }: RunAddress, search: string): void {
  const way = { cause: "enter", preload: false, params: { name }, search: {} };
  askForRun(way);
  // An address that says more is read by the router.
  if (search) return;
  if (tab === "") askForCurves(way);
  if (tab === "metrics") askForMetrics(way);
}

/** Ask for all that a run's page shows live. */
export function askForRun(way: Omit<WayToARun<unknown>, "search">): void {
  if (!isEntered(way)) return;
  const leave = live.watch(`run:${way.params.name}`, () => undefined);
  setTimeout(leave, KEPT_MS);
}

/** Ask for the curves of a run's overview. */
export function askForCurves(way: WayToARun<OverviewSearch>): void {
  if (isEntered(way)) void queries.prefetchQuery(earlyCurvesQuery(way.params.name, way.search));
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
