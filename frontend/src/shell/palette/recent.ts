/** Recently opened runs, stored in this browser. */

const KEY = "rolldeck-recent-runs";
const MOST = 6;

/** Their names, the newest first. */
export function recentRuns(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((name) => typeof name === "string").slice(0, MOST) : [];
  } catch {
    return [];
  }
}

/** Put a run first. */
export function remember(run: string): void {
  try {
    localStorage.setItem(KEY, JSON.stringify([run, ...recentRuns().filter((known) => known !== run)].slice(0, MOST)));
  } catch {
    // A browser that keeps nothing has no recent runs.
  }
}
