/** Time range of the charts, if not the entire run. Pure. */

import type { Span } from "@/api/metrics";

/** In seconds; the first means the entire run. */
export const RANGES = [0, 900, 3600, 21_600, 86_400] as const;
export type Range = (typeof RANGES)[number];
export const RANGE_WORDS: Record<Range, string> = {
  0: "Entire run",
  900: "Last 15 min",
  3600: "Last hour",
  21_600: "Last 6 h",
  86_400: "Last day",
};

/** The range from the URL, if valid. */
export function rangeOf(value: unknown): Range | undefined {
  return RANGES.find((range) => range !== 0 && range === Number(value));
}

/** The next longer range; after the longest, the entire run. */
export function nextRange(range: Range): Range {
  return RANGES[(RANGES.indexOf(range) + 1) % RANGES.length] ?? 0;
}

/** The time span of a range; moves in steps so that responses can be cached. */
export function spanSince(nowMs: number, range: Range, stepMs: number): Span | undefined {
  if (range === 0) return undefined;
  const to = (Math.ceil(nowMs / stepMs) * stepMs) / 1000;
  return { from: to - range, to };
}
