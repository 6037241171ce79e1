/** Which sequence of a group is shown before one is chosen. Pure. */

type Ranked = { score: number | null; tokens: number };

/**
 * The place of the sequence that put the group where it stands in its list: sorted by lowest scores
 * the worst one, by highest the best one, by length the longest one; else the first.
 */
export function firstShown(sort: string | undefined, sequences: Ranked[]): number {
  const rank: Record<string, (one: Ranked) => number | null> = {
    score: ({ score }) => score,
    "-score": ({ score }) => (score === null ? null : -score),
    length: ({ tokens }) => tokens,
  };
  const of = rank[sort ?? ""];
  if (!of) return 0;
  const values = sequences.map((one) => of(one) ?? Number.NEGATIVE_INFINITY);
  return Math.max(0, values.indexOf(Math.max(...values)));
}
