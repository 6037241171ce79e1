/** Forecast when the disk will be full, as text. Pure. */

import type { Growth } from "@/api/deployment";
import { bytes, duration } from "@/format";

/** A sentence on the payload disk; states when there are too few samples. */
export function foretold(disk: Growth["disk"], samples: number): string {
  switch (disk.state) {
    case "below":
      return "Disk space is below the minimum: pushes are refused.";
    case "steady":
      return "At the current rate the disk will not fill within a year.";
    case "shrinks":
      return `At the current rate (${bytes(-(disk.per_hour ?? 0))} per hour) pushes will be refused for lack of space in ${duration(disk.seconds_left)}.`;
    default:
      return `Not enough data for a forecast: ${samples} one-minute samples of the 30 needed.`;
  }
}

/** A change per hour with its sign; a dash if unknown. */
export function anHour(amount: number | null | undefined): string {
  if (amount === null || amount === undefined) return "–";
  return `${amount < 0 ? "−" : "+"}${bytes(Math.abs(amount))} per hour`;
}
