/** URL parameters of the episodes tab. Pure. */

import { endsOn } from "@/charts/names";

/** Period of the summary, in seconds. */
export const SPANS = [60, 300, 3600] as const;
export type SpanChoice = (typeof SPANS)[number];

export type EpisodesSearch = {
  /** Defaults to five minutes. */
  span?: SpanChoice;
  /** The measure of the distribution; defaults to the return. */
  of?: "length";
  /** The environment or lesson to filter by, as `mode task`. */
  task?: string;
  /** The selected range of the distribution. */
  least?: number;
  most?: number;
  /** The visible range of the charts. */
  from?: number;
  to?: number;
};

function finite(value: unknown): number | undefined {
  const found = typeof value === "string" && value !== "" ? Number(value) : value;
  return typeof found === "number" && Number.isFinite(found) ? found : undefined;
}

/** Parse search parameters; invalid values and defaults are dropped. */
export function episodesSearch(search: Record<string, unknown>): EpisodesSearch {
  const span = SPANS.find((each) => each === Number(search.span));
  const [least, most] = [finite(search.least), finite(search.most)];
  const isOrdered = least === undefined || most === undefined || least <= most;
  return {
    span: span === 300 ? undefined : span,
    of: search.of === "length" ? "length" : undefined,
    task: typeof search.task === "string" && /^(train|eval) ./.test(search.task) ? search.task : undefined,
    ...(isOrdered ? { least, most } : {}),
    ...endsOn("time", search),
  };
}
