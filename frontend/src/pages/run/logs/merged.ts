/** Lay the logs of several processes into one, by the times that their lines name. Pure. */

import { timeOf } from "./levels";

export type Source = { name: string; lines: readonly string[] };

/** All lines by time, each after the name of its log. One without a time belongs to the line before it in its own log. */
export function merged(sources: readonly Source[]): string[] {
  if (sources.length === 1) return [...(sources[0]?.lines ?? [])];
  const all = sources.flatMap(({ name, lines }) => {
    // What stands before the first time is as old as anything.
    let at = Number.NEGATIVE_INFINITY;
    return lines.map((line) => {
      at = Math.max(at, timeOf(line) ?? at);
      return { at, text: `[${name}] ${line}` };
    });
  });
  // Sorting keeps the order of lines of one time.
  return all.sort((one, other) => (one.at === other.at ? 0 : one.at - other.at)).map(({ text }) => text);
}
