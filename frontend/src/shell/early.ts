/** Prefetch a page's data while its code is loading, so that requests and code load in parallel. */

import { runAlertsQuery } from "@/api/alerts";
import { queries } from "@/api/client";
import { metricNamesQuery } from "@/api/metrics";
import { runQuery } from "@/api/runs";
import { sessionQuery } from "@/api/session";
import { spanOf } from "@/charts/names";
import { live, startLive, stopLive } from "@/live/live";
import { codeAt } from "@/pages/code";
import { type RunAddress, runAt } from "@/shell/addresses";
import { presetLinesQuery } from "@/wall/presets";
import { runsOf, type View } from "@/wall/view";

/** The router's context when a page is entered, left or preloaded. */
type Way<Search> = { cause: string; preload: boolean; search: Search };
type WayToARun<Search> = Way<Search> & { params: { name: string } };

const isEntered = ({ cause, preload }: Pick<Way<unknown>, "cause" | "preload">): boolean => cause === "enter" && !preload;

/** How long a topic stays subscribed until the page subscribes itself. */
const SUBSCRIBED_MS = 15_000;

/** Whether the server saw a session cookie when it sent the page. */
const hasSession = (): boolean => "session" in document.documentElement.dataset;

/** Request the session and the page's data, and open the socket, before any rendering code is loaded. */
export function askAhead({ pathname, search }: Pick<Location, "pathname" | "search">): void {
  const isSignedIn = hasSession();
  if (isSignedIn && pathname !== "/login") startLive();
  void queries
    .ensureQueryData(sessionQuery)
    .then(({ authenticated }) => (authenticated ? startLive : stopLive)())
    .catch(() => undefined); // The page requests it again and shows the error.
  if (!isSignedIn) return;
  for (const load of codeAt(pathname)) void load();
  const about = runAt(pathname);
  if (about) askForRunAt(about, search);
}

function askForRunAt({ name, tab }: RunAddress, search: string): void {
  const way = { cause: "enter", preload: false, params: { name }, search: {} };
  askForRun(way);
  // URLs with search parameters are left to the router.
  if (search) return;
  if (tab === "") askForCurves(way);
  if (tab === "metrics") askForMetrics(way);
}

/** Prefetch the live data of a run page. */
export function askForRun(way: Omit<WayToARun<unknown>, "search">): void {
  if (!isEntered(way)) return;
  const leave = live.watch(`run:${way.params.name}`, () => undefined);
  setTimeout(leave, SUBSCRIBED_MS);
}

/** Prefetch the overview charts of a run. */
export function askForCurves(way: WayToARun<View>): void {
  if (!isEntered(way)) return;
  void queries.prefetchQuery(runAlertsQuery(way.params.name));
  const { x: axis = "time", from, to } = way.search;
  void queries.prefetchQuery(presetLinesQuery({ runs: [way.params.name], axis, span: spanOf({ from, to }) }));
}

/** Prefetch the metric names of a run. */
export function askForMetrics(way: WayToARun<View>): void {
  if (!isEntered(way)) return;
  void queries.prefetchQuery(metricNamesQuery(way.params.name));
}

/** Prefetch the compared runs and, in parallel, their metrics. */
export function askForCompared(way: Way<View>): void {
  if (!isEntered(way)) return;
  for (const run of runsOf(way.search)) {
    void queries.prefetchQuery(runQuery(run));
    void queries.prefetchQuery(metricNamesQuery(run));
  }
}
