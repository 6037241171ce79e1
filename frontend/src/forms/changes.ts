/** Diff of two configurations: added, removed and changed values. Pure. */

import { type Config, isConfig, withAt } from "@/forms/schema";

export type Change = { path: string; kind: "added" | "removed" | "changed"; before: unknown; after: unknown };

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Return the differences, at the deepest path where both sides have objects. */
export function changesOf(before: unknown, after: unknown, path = ""): Change[] {
  if (!isConfig(before) || !isConfig(after)) {
    return same(before, after) ? [] : [{ path, kind: "changed", before, after }];
  }
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return keys.flatMap((key): Change[] => {
    const place = path ? `${path}.${key}` : key;
    if (!(key in after)) return [{ path: place, kind: "removed", before: before[key], after: undefined }];
    if (!(key in before)) return [{ path: place, kind: "added", before: undefined, after: after[key] }];
    return changesOf(before[key], after[key], place);
  });
}

/** Return the object that, merged into the old configuration, gives the new one; null if a removal is needed. */
export function overlayOf(changes: Change[]): Config | null {
  if (changes.some(({ kind }) => kind === "removed")) return null;
  return changes.reduce<Config>((overlay, { path, after }) => withAt(overlay, path, after), {});
}

/** The leaves of an object by path; null for a value that is not an object, or an empty one. */
export function leavesOf(value: unknown, above = ""): [path: string, leaf: unknown][] | null {
  if (!isConfig(value) || Object.keys(value).length === 0) return null;
  return Object.entries(value).flatMap(([key, inner]): [string, unknown][] => {
    const path = above ? `${above}.${key}` : key;
    return leavesOf(inner, path) ?? [[path, inner]];
  });
}

/** A value as one line of text. */
export function valueText(value: unknown): string {
  if (value === undefined) return "–";
  return typeof value === "string" ? value : JSON.stringify(value);
}
