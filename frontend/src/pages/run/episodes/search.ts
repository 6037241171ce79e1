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
};

/** Read an address; what makes no sense is left out, what needs no word too. */
export function episodesSearch(search: Record<string, unknown>): EpisodesSearch {
  const span = SPANS.find((each) => each === Number(search.span));
  return {
    span: span === 300 ? undefined : span,
    x: search.x === "env_steps" || search.x === "served_steps" ? search.x : undefined,
  };
}
