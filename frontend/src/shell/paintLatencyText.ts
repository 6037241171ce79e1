/** Format the paint latency. Pure. */

import { preciseDuration } from "@/format";
import type { Painted } from "@/live/paintLatency";

const text = (ms: number): string => preciseDuration(ms / 1000);

/** If the clock error exceeds the latency, only the bound is shown. */
export function paintedText({ ms, errorMs }: Painted): string {
  if (ms <= errorMs) return `The newest change was painted within ${text(Math.ceil(ms + errorMs))} of its commit.`;
  return `The newest change was painted ${text(ms)} after its commit (± ${text(Math.ceil(errorMs))}).`;
}
