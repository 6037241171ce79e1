/** User preferences, stored in this browser only. */

type Preferences = {
  /** Time zone of displayed times. */
  time: "local" | "utc";
  density: "comfortable" | "dense";
  /** Rows per page. */
  rows: number;
};

export const ROWS = [25, 50, 100] as const;
export const STANDARD: Preferences = { time: "local", density: "comfortable", rows: 50 };
const KEY = "rolldeck-preferences";

/** Parse the stored preferences; invalid values are dropped. */
export function parsed(kept: string | null): Preferences {
  let found: Partial<Record<keyof Preferences, unknown>> = {};
  try {
    const value: unknown = JSON.parse(kept ?? "{}");
    if (typeof value === "object" && value !== null) found = value;
  } catch {
    // Not ours, or cut short: as if nothing was kept.
  }
  return {
    time: found.time === "utc" ? "utc" : "local",
    density: found.density === "dense" ? "dense" : "comfortable",
    rows: ROWS.find((rows) => rows === found.rows) ?? STANDARD.rows,
  };
}

function read(): Preferences {
  try {
    return parsed(localStorage.getItem(KEY));
  } catch {
    return STANDARD;
  }
}

let current: Preferences | null = null;

export function preferences(): Preferences {
  current ??= typeof localStorage === "undefined" ? STANDARD : read();
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
