/** Say how soon a change was painted. Pure. */

import type { Painted } from "@/live/painting";

const said = (ms: number): string => (ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`);

/** Where the clocks are not known as well as that, only the bound is said. */
export function paintedText({ ms, errorMs }: Painted): string {
  if (ms <= errorMs) return `The newest change was painted within ${said(Math.ceil(ms + errorMs))} of its commit.`;
  return `The newest change was painted ${said(ms)} after it was committed (± ${said(Math.ceil(errorMs))}).`;
}
