/** Bars of a distribution, and filters of lists. Pure. */

import type { GroupQuery, ScoreBins } from "@/api/groups";
import type { EpisodeFind, EpisodeSpread } from "@/pages/run/episodes/api";

/** The distribution as bars; empty without data. */
export function barsOf({ counts, least, most }: Pick<EpisodeSpread, "counts" | "least" | "most">): ScoreBins | undefined {
  return least === null || most === null ? undefined : { least, most, counts };
}

/** Filter of the group list for the selected range. */
export function groupsBetween(
  of: EpisodeSpread["of"],
  least: number | undefined,
  most: number | undefined,
  lesson: string | undefined,
): GroupQuery {
  const range = of === "return" ? { score_min: least, score_max: most } : { length_min: least, length_max: most };
  return { ...range, ...(lesson ? { lesson: [lesson] } : {}) };
}

/** Filter of the fragment list for a worker and the version of an episode: the nearest version still stored. */
export function fragmentsOf({ worker, policy_step }: Pick<EpisodeFind, "worker" | "policy_step">): GroupQuery {
  const versions = policy_step >= -1 ? { version_min: policy_step, version_max: policy_step } : {};
  return { q: `w${worker}-`, ...versions };
}
