/** Format the ticks of a time axis. Pure. */

const DAY_SECONDS = 86_400;

/** Tick intervals in seconds: clock steps, then calendar steps. */
export const CLOCK_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200];
export const DAY_STEPS = [1, 2, 5, 10, 30, 90, 365].map((days) => days * DAY_SECONDS);

/** A date at midnight, else a time, the first one with its date; `timeZone` defaults to the browser's. */
export function momentTicks(ticks: number[], timeZone?: string): string[] {
  const step = (ticks[1] ?? 60) - (ticks[0] ?? 0);
  return ticks.map((tick, index) => {
    const at = new Date(tick * 1000);
    const time = at.toLocaleTimeString("en-US", {
      hour: "2-digit",
      minute: "2-digit",
      second: step < 60 ? "2-digit" : undefined,
      hourCycle: "h23",
      timeZone,
    });
    const beginsADay = step >= DAY_SECONDS || /^00:00(:00)?$/.test(time);
    const date = at.toLocaleDateString("en-US", { day: "numeric", month: "short", timeZone });
    if (beginsADay) return date;
    return index === 0 ? `${date} ${time}` : time;
  });
}

/** Format a time on a chart of the given span; with the date if it covers several days. */
export function momentName(seconds: number, span: number, timeZone?: string): string {
  const at = new Date(seconds * 1000);
  const time = at.toLocaleTimeString("en-US", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZone });
  return span < DAY_SECONDS ? time : `${at.toLocaleDateString("en-US", { day: "numeric", month: "short", timeZone })}, ${time}`;
}
