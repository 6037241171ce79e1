/** Rules of group marks and of their parts. Pure. */

import type { GroupSummary } from "@/api/groups";

export type Mark = NonNullable<GroupSummary["mark"]>;
export type MarkChange = { label?: number | null; note?: string };

export const LABELS = [1, 2, 3, 4, 5, 6, 7, 8, 9] as const;
export const LONGEST_NOTE = 2000;
/** Maximum number of groups per request. */
export const MOST_AT_ONCE = 200;

const NOTHING: Mark = { label: null, note: "", changed_by: "", changed_at: new Date(0).toISOString() };

/** Author and time of a change that the server just confirmed. */
export function changedBy(name: string, at = new Date()): Pick<Mark, "changed_by" | "changed_at"> {
  return { changed_by: name, changed_at: at.toISOString() };
}

/** The mark after a change; null if empty, as on the server. */
export function remarked(mark: Mark | null | undefined, change: Partial<Mark>, by: Partial<Mark> = {}): Mark | null {
  const after = { ...NOTHING, ...mark, ...change };
  if (after.label === null && after.note.trim() === "") return null;
  return { ...after, note: after.note.trim(), ...by };
}

/** The label after a digit key: 0 and the current label's digit clear it. */
export function labelAfter(mark: Mark | null | undefined, digit: number): number | null {
  return digit === 0 || mark?.label === digit ? null : digit;
}

/** The label that all groups share; null if they differ or have none. */
export function labelOfAll(groups: { mark: Mark | null }[]): number | null {
  const label = groups[0]?.mark?.label ?? null;
  return groups.every(({ mark }) => (mark?.label ?? null) === label) ? label : null;
}

/** The mark as text, for screen readers and tooltips. */
export function markText(mark: Mark | null | undefined, nameOf: (label: number) => string): string {
  if (!mark) return "not marked";
  const label = mark.label === null ? "" : `label ${[mark.label, nameOf(mark.label)].filter(Boolean).join(" ")}`;
  return [label, mark.note ? "noted" : ""].filter(Boolean).join(", ");
}
