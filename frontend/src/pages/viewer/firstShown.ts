/** Select the initial sequence of a group. Pure. */

type Ranked = { score: number | null; tokens: number };

/**
 * The index of the sequence that determined the group's rank in its list: the worst when sorted by lowest
 * scores, the best by highest, the longest by length; else the first.
 */
export function firstShown(sort: string | undefined, sequences: Ranked[]): number {
  const rank: Record<string, (one: Ranked) => number | null> = {
    "-score": ({ score }) => score,
    score: ({ score }) => (score === null ? null : -score),
    "-length": ({ tokens }) => tokens,
  };
  const of = rank[sort ?? ""];
  if (!of) return 0;
  const values = sequences.map((one) => of(one) ?? Number.NEGATIVE_INFINITY);
  return Math.max(0, values.indexOf(Math.max(...values)));
}
