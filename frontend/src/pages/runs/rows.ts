/** Put together what is shown of each run, from three sources of different age. Pure. */

import type { ListedRun, Outlook } from "@/api/runLists";
import type { RunRow } from "@/api/types";

/** Runs in the order of the list, each with the newest that anybody said of it. */
export function shownRuns(listed: ListedRun[], live: RunRow[], outlooks: Record<string, Outlook>): (ListedRun & Partial<Outlook>)[] {
  const now = new Map(live.map((run) => [run.id, run]));
  const seen = new Set<number>();
  return listed.flatMap((run) => {
    // Two pages may hold the same run when its place has changed between them.
    if (seen.has(run.id)) return [];
    seen.add(run.id);
    return [{ ...run, ...outlooks[run.id], ...now.get(run.id) }];
  });
}

/** Active runs of which the live list says nothing. */
export function unknownIds(listed: ListedRun[], live: RunRow[], most = 200): number[] {
  const known = new Set(live.map(({ id }) => id));
  return listed
    .filter(({ id }) => !known.has(id))
    .map(({ id }) => id)
    .slice(0, most);
}

/** Runs of which the live list tells no more than their state: those that are over. */
export function restingIds(listed: ListedRun[], live: RunRow[], most = 200): number[] {
  const bare = new Set(live.filter(({ queued }) => queued === undefined).map(({ id }) => id));
  return listed
    .filter(({ id }) => bare.has(id))
    .map(({ id }) => id)
    .slice(0, most);
}
