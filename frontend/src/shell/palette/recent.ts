/** Recently opened pages, stored in this browser. */

const KEY = "rolldeck-recent";
const MOST = 6;

/** The ids of recently opened pages, newest first. */
export function recentIds(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((id) => typeof id === "string").slice(0, MOST) : [];
  } catch {
    return [];
  }
}

/** Put an id first. */
export function remember(id: string): void {
  try {
    localStorage.setItem(KEY, JSON.stringify([id, ...recentIds().filter((known) => known !== id)].slice(0, MOST)));
  } catch {
    // A browser that keeps nothing has no recent ones.
  }
}

/** The names of recently opened runs. */
export function recentRuns(): string[] {
  return recentIds().flatMap((id) => (id.startsWith("run:") ? [id.slice(4)] : []));
}
