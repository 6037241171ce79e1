/** Prefetch a page's data while its code is loading, so that requests and code load in parallel. */

import { runAlertsQuery } from "@/api/alerts";
import { queries } from "@/api/client";
import { metricNamesQuery } from "@/api/metrics";
import { sessionQuery } from "@/api/session";
import { live, startLive, stopLive } from "@/live/live";
import { codeAt } from "@/pages/code";
import { type RunAddress, runAt } from "@/shell/addresses";
import { presetLinesQuery } from "@/wall/presets";

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
  if (about) askForRun(about, search);
}

/** Subscribe to the live data of a run page, and prefetch that of its charts. */
function askForRun({ name, tab }: RunAddress, search: string): void {
  const leave = live.watch(`run:${name}`, () => undefined);
  setTimeout(leave, SUBSCRIBED_MS);
  // URLs with search parameters are left to the router.
  if (search) return;
  if (tab === "metrics") void queries.prefetchQuery(metricNamesQuery(name));
  if (tab !== "") return;
  void queries.prefetchQuery(runAlertsQuery(name));
  void queries.prefetchQuery(presetLinesQuery({ runs: [name], axis: "time", span: undefined }));
}
