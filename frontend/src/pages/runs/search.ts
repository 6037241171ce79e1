/** URL parameters of lists of runs. Pure. */

import { SORTS, type Sort } from "@/api/runLists";

export type RunsSearch = { q?: string; sort?: Sort; cols?: string; dense?: boolean };

const text = (value: unknown): string | undefined => (typeof value === "string" || typeof value === "number" ? String(value) : undefined);

/** Parse search parameters; invalid values are dropped. */
export function runsSearch(search: Record<string, unknown>): RunsSearch {
  return {
    q: text(search.q),
    sort: SORTS.some((name) => search.sort === name || search.sort === `-${name}`) ? (search.sort as Sort) : undefined,
    cols: text(search.cols),
    dense: search.dense === true || undefined,
  };
}

/** The filter with a further term; it follows, so that positions of errors in the filter stay correct. */
export function withinFilter(q: string, within: string | undefined): string {
  return within === undefined ? q : `${q} ${within}`.trim();
}
