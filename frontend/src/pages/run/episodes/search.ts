/** What the episodes tab keeps in its address. Pure. */

import type { Axis } from "@/charts/columns";

/** Seconds that the summary looks back. */
export const SPANS = [60, 300, 3600] as const;
export type SpanChoice = (typeof SPANS)[number];

export type EpisodesSearch = {
  /** Absent: five minutes. */
  span?: SpanChoice;
  /** Absent: time. */
  x?: Exclude<Axis, "time">;
  /** What is spread; absent: the return. */
  of?: "length";
  /** The only environment or lesson that is drawn, as `mode task`. */
  task?: string;
  /** The part of the spread that was brushed over. */
  least?: number;
  most?: number;
};

function finite(value: unknown): number | undefined {
  const found = typeof value === "string" && value !== "" ? Number(value) : value;
  return typeof found === "number" && Number.isFinite(found) ? found : undefined;
}

/** Read an address; what makes no sense is left out, what needs no word too. */
export function episodesSearch(search: Record<string, unknown>): EpisodesSearch {
  const span = SPANS.find((each) => each === Number(search.span));
  const [least, most] = [finite(search.least), finite(search.most)];
  const isOrdered = least === undefined || most === undefined || least <= most;
  return {
    span: span === 300 ? undefined : span,
    of: search.of === "length" ? "length" : undefined,
    task: typeof search.task === "string" && /^(train|eval) ./.test(search.task) ? search.task : undefined,
    ...(isOrdered ? { least, most } : {}),
    x: search.x === "env_steps" || search.x === "served_steps" ? search.x : undefined,
  };
}
