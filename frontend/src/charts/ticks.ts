/** Say what stands below the ticks of an axis of moments. Pure but for the browser's language. */

const DAY_SECONDS = 86_400;

/** Steps between ticks, in seconds: those of a clock, then those of a calendar. */
export const CLOCK_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200];
export const DAY_STEPS = [1, 2, 5, 10, 30, 90, 365].map((days) => days * DAY_SECONDS);

/** A day where a day begins, else a time; `timeZone` is the browser's own if absent. */
export function momentTicks(ticks: number[], timeZone?: string): string[] {
  const step = (ticks[1] ?? 60) - (ticks[0] ?? 0);
  return ticks.map((tick) => {
    const at = new Date(tick * 1000);
    const time = at.toLocaleTimeString([], {
      hour: "2-digit",
      minute: "2-digit",
      second: step < 60 ? "2-digit" : undefined,
      hourCycle: "h23",
      timeZone,
    });
    const beginsADay = step >= DAY_SECONDS || /^00:00(:00)?$/.test(time);
    return beginsADay ? at.toLocaleDateString([], { day: "numeric", month: "short", timeZone }) : time;
  });
}

/** A moment of a chart that spans so many seconds: with its day where there are several. */
export function momentName(seconds: number, span: number, timeZone?: string): string {
  const at = new Date(seconds * 1000);
  const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZone });
  return span < DAY_SECONDS ? time : `${at.toLocaleDateString([], { day: "numeric", month: "short", timeZone })}, ${time}`;
}
