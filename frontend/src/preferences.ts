/** User preferences, stored in this browser only. */

import * as v from "valibot";

export const ROWS = [25, 50, 100] as const;
const Stored = v.object({
  /** Time zone of displayed times. */
  time: v.fallback(v.picklist(["local", "utc"]), "local"),
  density: v.fallback(v.picklist(["comfortable", "dense"]), "comfortable"),
  /** Rows per page. */
  rows: v.fallback(v.picklist<readonly number[], undefined>(ROWS, undefined), 50),
});
type Preferences = v.InferOutput<typeof Stored>;
export const STANDARD: Preferences = v.getFallbacks(Stored) as Preferences;
const KEY = "rolldeck-preferences";

/** Parse the stored preferences; invalid values are dropped. */
export function parsed(kept: string | null): Preferences {
  try {
    return v.parse(v.fallback(Stored, STANDARD), JSON.parse(kept ?? "{}"));
  } catch {
    return STANDARD; // Not JSON.
  }
}

let current: Preferences | null = null;

export function preferences(): Preferences {
  try {
    current ??= parsed(localStorage.getItem(KEY));
  } catch {
    current = STANDARD; // No storage.
  }
  return current;
}

/** Apply the density to the page. */
export function applyPreferences(): void {
  document.documentElement.dataset.density = preferences().density;
}

export function choose(changes: Partial<Preferences>): Preferences {
  current = { ...preferences(), ...changes };
  try {
    localStorage.setItem(KEY, JSON.stringify(current));
  } catch {
    // It holds until the page is closed.
  }
  applyPreferences();
  return current;
}
