/** Merge run data from three sources of different age. Pure. */

import type { ListedRun, RunActivity } from "@/api/runs";
import type { RunRow } from "@/api/types";
import { meanAndSpread } from "@/charts/lines";
import { number } from "@/format";
import type { GroupBy } from "@/runs/search";

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

/** Runs of one value; null: of none. */
export type RunGroup = { value: string | null; runs: ShownRun[] };

/** Runs by value, in list order; a run with several tags is in the group of each. Runs without a value are last. */
export function groupsOf(runs: ShownRun[], by: GroupBy): RunGroup[] {
  const groups = new Map<string | null, ShownRun[]>();
  for (const run of runs) {
    const value = run.columns?.[by];
    const single = by === "project" ? run.project : value === null || value === undefined ? null : String(value);
    const values = by === "tag" && run.tags.length > 0 ? run.tags : [by === "tag" ? null : single];
    for (const each of values) groups.set(each, [...(groups.get(each) ?? []), run]);
  }
  const found = [...groups].map(([value, members]) => ({ value, runs: members }));
  return [...found.filter(({ value }) => value !== null), ...found.filter(({ value }) => value === null)];
}

/** `0.5 ± 0.1`: mean and sample standard deviation of the finite values; the mean alone of one value. */
export function meanAndDeviation(values: unknown[]): string {
  const finite = values.filter((value): value is number => typeof value === "number" && Number.isFinite(value));
  const { mean = null, deviation = null } = meanAndSpread(finite) ?? {};
  return deviation === null ? number(mean) : `${number(mean)} ± ${number(deviation)}`;
}

/** The address of a run, in links and in the API: `name` for a current run, `name--id` for an archived one. */
export const addressOf = ({ id, name, archived_at }: Pick<ListedRun, "id" | "name" | "archived_at">): string =>
  archived_at ? `${name}--${id}` : name;
