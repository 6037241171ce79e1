/** The time zone of displayed times, stored in this browser only. */

export type TimeZone = "local" | "utc";
const KEY = "rolldeck-time-zone";
let current: TimeZone | null = null;

export function chosenZone(): TimeZone {
  try {
    current ??= localStorage.getItem(KEY) === "utc" ? "utc" : "local";
  } catch {
    current = "local";
  }
  return current;
}

export function chooseZone(zone: TimeZone): void {
  current = zone;
  try {
    localStorage.setItem(KEY, zone);
  } catch {
    // It holds until the page is closed.
  }
}
