/** Say what a mark on a group comes to, and what its parts may be. Pure. */

import type { GroupSummary } from "@/api/groups";

export type Mark = NonNullable<GroupSummary["mark"]>;
export type MarkChange = { label?: number | null; is_pinned?: boolean; note?: string };

export const LABELS = [1, 2, 3, 4, 5, 6, 7, 8, 9] as const;
export const LONGEST_NOTE = 2000;
/** Groups that one request may mark. */
export const MOST_AT_ONCE = 200;

const NOTHING: Mark = { label: null, is_pinned: false, note: "", sets: [], changed_by: "", changed_at: null };

/** Who made a change that the server has just confirmed, and when. */
export function changedBy(name: string, at = new Date()): Pick<Mark, "changed_by" | "changed_at"> {
  return { changed_by: name, changed_at: at.toISOString() };
}

/** The mark as it is after a change; null when nothing is said any more, as the server has it. */
export function remarked(mark: Mark | null | undefined, change: Partial<Mark>, by: Partial<Mark> = {}): Mark | null {
  const after = { ...NOTHING, ...mark, ...change };
  const isMarked = after.label !== null || after.is_pinned || after.note.trim() !== "";
  if (!isMarked && after.sets.length === 0) return null;
  if (!isMarked) return { ...NOTHING, sets: after.sets };
  return { ...after, note: after.note.trim(), ...by };
}

/** What pressing a digit asks for: 0 takes the label away, and so does the label that is there. */
export function labelAfter(mark: Mark | null | undefined, digit: number): number | null {
  return digit === 0 || mark?.label === digit ? null : digit;
}

/** The label that all groups have; null where they differ, or have none. */
export function labelOfAll(groups: { mark: Mark | null }[]): number | null {
  const label = groups[0]?.mark?.label ?? null;
  return groups.every(({ mark }) => (mark?.label ?? null) === label) ? label : null;
}

/** Why a text can be no name of a set; empty if it can. */
export function setNameProblem(name: string): string {
  return /^[a-z0-9][a-z0-9_-]{0,59}$/.test(name) ? "" : "1 to 60 of a–z, 0–9, _ and -, a letter or digit first";
}

/** A typed name as a set may bear it: `Reward hacks` is `reward-hacks`. */
export function setNameOf(typed: string): string {
  return typed.trim().toLowerCase().replaceAll(/\s+/g, "-");
}

/** The mark in words, for readers aloud and for tooltips. */
export function spoken(mark: Mark | null | undefined, nameOf: (label: number) => string): string {
  if (!mark) return "not marked";
  const label = mark.label === null ? "" : `label ${[mark.label, nameOf(mark.label)].filter(Boolean).join(" ")}`;
  const sets = mark.sets.length > 0 ? `in ${mark.sets.join(", ")}` : "";
  return [mark.is_pinned ? "pinned" : "", label, mark.note ? "noted" : "", sets].filter(Boolean).join(", ");
}
