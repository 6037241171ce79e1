/** User preferences, stored in this browser only. */

/** `time`: the time zone of displayed times. */
type Preferences = { time: "local" | "utc" };

export const STANDARD: Preferences = { time: "local" };
const KEY = "rolldeck-preferences";

/** Parse the stored preferences; invalid values are dropped. */
export function parsed(kept: string | null): Preferences {
  try {
    return JSON.parse(kept ?? "{}")?.time === "utc" ? { time: "utc" } : STANDARD;
  } catch {
    return STANDARD;
  }
}

let current: Preferences | null = null;

export function preferences(): Preferences {
  if (current) return current;
  try {
    current = parsed(localStorage.getItem(KEY));
  } catch {
    current = STANDARD;
  }
  return current;
}

export function choose(chosen: Preferences): Preferences {
  current = chosen;
  try {
    localStorage.setItem(KEY, JSON.stringify(chosen));
  } catch {
    // It holds until the page is closed.
  }
  return chosen;
}
