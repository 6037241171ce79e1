/** Parse level and timestamp from log lines. Pure. */

export const LEVELS = ["debug", "info", "warning", "error"] as const;
export type Level = (typeof LEVELS)[number];

const WORDS: Record<string, Level> = {
  trace: "debug",
  debug: "debug",
  info: "info",
  notice: "info",
  warn: "warning",
  warning: "warning",
  error: "error",
  critical: "error",
  fatal: "error",
};
// An uppercase word near the start, `level=warn`, `"level": "warn"`, or the letter of glog and Ray.
const CAPITALS = /^.{0,60}?\b(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)\b/;
const NAMED = /\b(?:level|lvl|severity)"?\s*[=:]\s*"?([a-z]+)/i;
const LETTER = /^\[?([DIWEF])(?:\d{4}\b|\s+\d{4}-)/;
const LETTERS: Record<string, Level> = { D: "debug", I: "info", W: "warning", E: "error", F: "error" };
const TRACEBACK = /^\s*(Traceback \(most recent call last\):|[\w.]*(Error|Exception)(: |$))/;

/** The level of a line; null if it has none. */
export function levelOf(line: string): Level | null {
  const word = CAPITALS.exec(line)?.[1] ?? NAMED.exec(line)?.[1];
  const named = word && WORDS[word.toLowerCase()];
  if (named) return named;
  const letter = LETTER.exec(line)?.[1];
  if (letter) return LETTERS[letter] ?? null;
  return TRACEBACK.test(line) ? "error" : null;
}

/** The level of each line; a line without one inherits from the line before. */
export function levelsOf(lines: readonly string[]): (Level | null)[] {
  let last: Level | null = null;
  return lines.map((line) => {
    last = levelOf(line) ?? last;
    return last;
  });
}

/** Whether a line reaches the minimum level; leading lines without a level are kept. */
export function reaches(level: Level | null, least: Level): boolean {
  return level === null || LEVELS.indexOf(level) >= LEVELS.indexOf(least);
}

const TIME = /^\W{0,2}(?:[A-Z]+\s+)?(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?\s?(Z|[+-]\d\d:?\d\d)?/;

/** The timestamp at the start of a line in ms since 1970, in UTC without an offset; null if missing. */
export function timeOf(line: string): number | null {
  const found = TIME.exec(line);
  if (!found) return null;
  const [, day, clock, fraction = "0", offset = "Z"] = found;
  const at = Date.parse(`${day}T${clock}.${fraction.padEnd(3, "0").slice(0, 3)}${offset}`);
  return Number.isNaN(at) ? null : at;
}

/** A line without the timestamp at its start. */
export function withoutTime(line: string): string {
  return line.replace(TIME, "").replace(/^\W+/, "") || line;
}

/** Index of the first line at or after a time; null if there is none or no line has a timestamp. */
export function lineAt(lines: readonly string[], atMs: number): number | null {
  const found = lines.findIndex((line) => (timeOf(line) ?? -Infinity) >= atMs);
  return found < 0 ? null : found;
}
