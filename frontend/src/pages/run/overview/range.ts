/** How far back the curves look, when not to where the run began. Pure. */

import type { Span } from "@/api/metrics";

/** In seconds; the first is everything. */
export const RANGES = [0, 900, 3600, 21_600, 86_400] as const;
export type Range = (typeof RANGES)[number];
export const RANGE_WORDS: Record<Range, string> = {
  0: "All of it",
  900: "Last 15 min",
  3600: "Last hour",
  21_600: "Last 6 h",
  86_400: "Last day",
};

/** The range that an address names, if it names one. */
export function rangeOf(value: unknown): Range | undefined {
  return RANGES.find((range) => range !== 0 && range === Number(value));
}

/** The range after one, everything again after the longest. */
export function nextRange(range: Range): Range {
  return RANGES[(RANGES.indexOf(range) + 1) % RANGES.length] ?? 0;
}

/** What is looked at: it moves on in steps, so that what was asked for can be shown again. */
export function spanSince(nowMs: number, range: Range, stepMs: number): Span | undefined {
  if (range === 0) return undefined;
  const to = (Math.ceil(nowMs / stepMs) * stepMs) / 1000;
  return { from: to - range, to };
}
