/** Limits and rules of marks: tags and the note of a group. Pure. */

import type { GroupSummary } from "@/api/groups";

export type Mark = NonNullable<GroupSummary["mark"]>;

export const MOST_TAGS = 20;
export const LONGEST_TAG = 64;
export const LONGEST_NOTE = 2000;
/** Maximum number of groups per request. */
export const MOST_AT_ONCE = 200;

/** The tags that all groups have. */
export function tagsOfAll(groups: { mark: Mark | null }[]): string[] {
  const [first, ...others] = groups.map(({ mark }) => mark?.tags ?? []);
  return (first ?? []).filter((tag) => others.every((tags) => tags.includes(tag)));
}

/** Whether a group can still be discarded. */
export const isInQueue = ({ state }: { state: string }): boolean => state === "queued" || state === "waiting";
