/** The two sequences of a comparison, in the address of the page and in links. Pure. */

/** A sequence of a group; without a run, of the open one. */
export type Side = { run?: string; group: number; sequence: number };

const WRITTEN = /^(?:([^/\s]{1,100})\/)?(\d{1,15})\/(\d{1,5})$/;

/** A sequence as `group/sequence` or `run/group/sequence`; undefined for any other value. */
export function sideOf(value: unknown): Side | undefined {
  const found = typeof value === "string" ? WRITTEN.exec(value) : null;
  if (!found) return undefined;
  const [, run, group, sequence] = found;
  return { ...(run ? { run } : {}), group: Number(group), sequence: Number(sequence) };
}

export const sideText = ({ run, group, sequence }: Side): string => [...(run ? [run] : []), group, sequence].join("/");

/** The sequence that a link of the viewer names; undefined if it is no such link. */
export function sideOfLink(link: string): Side | undefined {
  const [written = ""] = link.trim().split("#");
  const [address = "", search = ""] = written.split("?");
  const found = /\/runs\/([^/\s]{1,300})\/groups\/(\d{1,15})\/?$/.exec(address);
  if (!found) return undefined;
  const sequence = new URLSearchParams(search).get("seq") ?? "0";
  try {
    return sideOf(`${decodeURIComponent(found[1] ?? "")}/${found[2]}/${sequence}`);
  } catch {
    return undefined;
  }
}

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
  const isEqual = first?.score === last?.score;
  const other = isEqual ? ranked[1] : last;
  return { left: { group, sequence: first?.index ?? 0 }, right: { group, sequence: other?.index ?? 0 } };
}
