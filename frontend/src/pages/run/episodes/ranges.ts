/** Bars of a distribution, and filters of lists. Pure. */

import { term } from "@/components/filter/suggest";
import type { EpisodeSpread } from "@/pages/run/episodes/api";
import type { SampleSearch } from "@/samples/search";

/** A histogram with bins of equal width. */
export type ScoreBins = { least: number; most: number; counts: number[] };

/** The distribution as bars; undefined without data. */
export function barsOf({ counts, least, most }: Pick<EpisodeSpread, "counts" | "least" | "most">): ScoreBins | undefined {
  return least === null || most === null ? undefined : { least, most, counts };
}

/** The list of the groups or episodes in a range, of one task if there is one. */
export function samplesBetween(
  { of, unit }: Pick<EpisodeSpread, "of" | "unit">,
  least: number | undefined,
  most: number | undefined,
  task: string | undefined,
): SampleSearch {
  const name = of === "return" ? "score" : "length";
  const terms = [
    ...(least === undefined ? [] : [term(name, least, ">=")]),
    ...(most === undefined ? [] : [term(name, most, "<=")]),
    ...(task ? [term("env", task)] : []),
  ];
  return { ...(unit === "episodes" ? { kind: "episode" } : {}), q: terms.join(" ") };
}
