/** Merge the logs of several processes by timestamp. Pure. */

import { timeOf } from "./levels";

export type Source = { name: string; lines: readonly string[] };

/** All lines by time, each prefixed with its log's name. A line without a timestamp inherits from the line before in its log. */
export function merged(sources: readonly Source[]): string[] {
  if (sources.length === 1) return [...(sources[0]?.lines ?? [])];
  const all = sources.flatMap(({ name, lines }) => {
    // Lines before the first timestamp sort first.
    let at = Number.NEGATIVE_INFINITY;
    return lines.map((line) => {
      at = Math.max(at, timeOf(line) ?? at);
      return { at, text: `[${name}] ${line}` };
    });
  });
  // The sort is stable for equal times.
  return all.sort((one, other) => (one.at === other.at ? 0 : one.at - other.at)).map(({ text }) => text);
}
