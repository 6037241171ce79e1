/** Say when the disk will be full, in words. Pure. */

import type { Growth } from "@/api/deck";
import { bytes, duration } from "@/format";

/** One sentence on the disk of payloads; honest where the series is too short. */
export function foretold(disk: Growth["disk"], samples: number): string {
  switch (disk.state) {
    case "below":
      return "There is too little room already: pushes are refused.";
    case "steady":
      return "At the present rate the disk does not fill within a year.";
    case "shrinks":
      return `At the present rate pushes are refused for want of room in ${duration(disk.seconds_left)}: ${bytes(-(disk.per_hour ?? 0))} are taken an hour.`;
    default:
      return `Too early to tell when the disk will be full: ${samples} of the samples of a minute each are there, it takes half an hour of them.`;
  }
}

/** A change an hour with its sign; a dash while nobody knows. */
export function anHour(amount: number | null | undefined): string {
  if (amount === null || amount === undefined) return "–";
  return `${amount < 0 ? "−" : "+"}${bytes(Math.abs(amount))} an hour`;
}
