/** Format the paint latency. Pure. */

import type { Painted } from "@/live/painting";

const said = (ms: number): string => (ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`);

/** If the clock error exceeds the latency, only the bound is shown. */
export function paintedText({ ms, errorMs }: Painted): string {
  if (ms <= errorMs) return `The newest change was painted within ${said(Math.ceil(ms + errorMs))} of its commit.`;
  return `The newest change was painted ${said(ms)} after its commit (± ${said(Math.ceil(errorMs))}).`;
}
