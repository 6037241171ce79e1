/** Chart data of a distribution over time. Pure. */

import type { GroupQuery, ScoreBins } from "@/api/groups";
import { number, percent } from "@/format";
import type { EpisodeFind, EpisodeSpread } from "@/pages/run/episodes/api";

export type Cell = { column: number; bin: number; count: number; part: number };

/** Non-empty cells, each relative to the fullest cell of its column, so that sparse columns stay visible. */
export function cellsOf(columns: EpisodeSpread["columns"]): Cell[] {
  return columns.flatMap(({ counts }, column) => {
    const fullest = Math.max(...counts);
    return counts.flatMap((count, bin) => (count > 0 ? [{ column, bin, count, part: count / fullest }] : []));
  });
}

/** The distribution over the entire period as bars; empty without data. */
export function barsOf({ columns, least, most }: Pick<EpisodeSpread, "columns" | "least" | "most">): ScoreBins | undefined {
  if (least === null || most === null) return undefined;
  const counts = columns.reduce<number[]>((sum, { counts: mine }) => mine.map((count, bin) => count + (sum[bin] ?? 0)), []);
  return { least, most, counts };
}

/** The distribution as a sentence for screen readers: the median of each third of the period. */
export function heatText({ columns, least, most }: Pick<EpisodeSpread, "columns" | "least" | "most">): string {
  if (least === null || most === null || columns.length === 0) return "no data";
  const third = Math.ceil(columns.length / 3);
  const words = ["first", "then", "last"].map((when, part) => {
    const bars = barsOf({ columns: columns.slice(part * third, (part + 1) * third), least, most });
    const total = bars?.counts.reduce((sum, count) => sum + count, 0) ?? 0;
    if (!bars || total === 0) return `${when} no data`;
    let seen = 0;
    const middle = bars.counts.findIndex((count) => {
      seen += count;
      return seen >= total / 2;
    });
    return `${when} median near ${number(least + ((middle + 0.5) * (most - least)) / bars.counts.length)}`;
  });
  return `from ${number(least)} to ${number(most)}: ${words.join(", ")}`;
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

const MEASURES = { return_mean: "return", length_mean: "length", aborted_share: "aborted" } as const;

/** How a worker deviates: `return far below the median of 191`. */
export function unlikeText({ measure, median, score }: { measure: keyof typeof MEASURES; median: number; score: number }): string {
  const middle = measure === "aborted_share" ? percent(median) : number(median);
  return `${MEASURES[measure]} far ${score < 0 ? "below" : "above"} the median of ${middle}`;
}
