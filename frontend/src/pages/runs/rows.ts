/** Merge run data from three sources of different age. Pure. */

import type { ListedRun, RunActivity } from "@/api/runLists";
import type { RunRow } from "@/api/types";

/** A listed run with its live data, if any. `isUnread`: its newest data could not be read. */
export type ShownRun = ListedRun & Partial<RunActivity> & { isUnread: boolean };

/** What a run's return is the mean of, by its source. */
export const RETURN_MEANING: Record<RunActivity["return_source"], string> = {
  "": "No training episodes or groups yet",
  episodes: "Mean return of the last 20 training episodes",
  scores: "Mean score of the groups of the newest train step",
};

/** Runs in list order, each with its newest data. `hasFailed`: a request failed, so only the live list is current. */
export function shownRuns(listed: ListedRun[], live: RunRow[], activity: Record<string, RunActivity>, hasFailed: boolean): ShownRun[] {
  const now = new Map(live.map((run) => [run.id, run]));
  const seen = new Set<number>();
  return listed.flatMap((run) => {
    // Two pages may contain the same run if its position changed between requests.
    if (seen.has(run.id)) return [];
    seen.add(run.id);
    return [{ ...run, ...activity[run.id], ...now.get(run.id), isUnread: hasFailed && !now.has(run.id) }];
  });
}

/** Active runs that the live list does not include. */
export function unknownIds(listed: ListedRun[], live: RunRow[], most = 200): number[] {
  const known = new Set(live.map(({ id }) => id));
  return listed
    .filter(({ id }) => !known.has(id))
    .map(({ id }) => id)
    .slice(0, most);
}

/** Ended runs, of which the live list has only the state. */
export function restingIds(listed: ListedRun[], live: RunRow[], most = 200): number[] {
  const bare = new Set(live.filter(({ queued }) => queued === undefined).map(({ id }) => id));
  return listed
    .filter(({ id }) => bare.has(id))
    .map(({ id }) => id)
    .slice(0, most);
}
