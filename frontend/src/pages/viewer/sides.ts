/** The two sequences of a comparison, in the address of the page. Pure. */

/** A sequence of a group. */
export type Side = { group: number; sequence: number };

/** A sequence as `group/sequence`; undefined for any other value. */
export function sideOf(value: unknown): Side | undefined {
  const found = typeof value === "string" ? /^(\d{1,15})\/(\d{1,5})$/.exec(value) : null;
  return found ? { group: Number(found[1]), sequence: Number(found[2]) } : undefined;
}

export const sideText = ({ group, sequence }: Side): string => `${group}/${sequence}`;

type Version = { id: number | string; epoch: number | null; policy_step: number | null };

/** Groups from the oldest policy version to the newest; those of an unknown version are first. */
export function byVersion<G extends Version>(groups: G[]): G[] {
  const step = ({ policy_step }: Version) => policy_step ?? -2;
  return [...groups].sort(
    (one, other) => (one.epoch ?? 0) - (other.epoch ?? 0) || step(one) - step(other) || Number(one.id) - Number(other.id),
  );
}

type Scored = { index: number; score: number | null };

/** The sequences of a group with the best and the worst score; its first two if all are equal. */
export function extremesOf(group: number, sequences: Scored[]): { left: Side; right: Side } {
  const ranked = [...sequences].sort((one, other) => (other.score ?? -Infinity) - (one.score ?? -Infinity) || one.index - other.index);
  const [first, last] = [ranked[0], ranked.at(-1)];
  const other = first?.score === last?.score ? ranked[1] : last;
  return { left: { group, sequence: first?.index ?? 0 }, right: { group, sequence: other?.index ?? 0 } };
}
