/** Render process output as safe text. */

import { visible } from "@/format";
import { whyEndless } from "@/forms/expressions";

const ESCAPES = /\u001b\[[0-?]*[ -/]*[@-~]?|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ -/]*[0-~]?/g;

/** A line without escape sequences, with control characters made visible. */
export function plain(line: string): string {
  return visible(line.replace(ESCAPES, ""));
}

/** A matcher for lines: case-insensitive text, or a regex between slashes; null if the regex is invalid or unsafe. */
export function wantedLine(words: string): ((line: string) => boolean) | null {
  const asked = words.trim();
  const expression = /^\/(.+)\/$/.exec(asked)?.[1];
  if (expression === undefined) return (line) => line.toLowerCase().includes(asked.toLowerCase());
  if (whyEndless(expression)) return null;
  try {
    const found = new RegExp(expression, "i");
    return (line) => found.test(line);
  } catch {
    return null;
  }
}

/** Indices of matching lines with their context lines; null marks a gap. */
export function chosen(lines: readonly string[], isWanted: (line: string, place: number) => boolean, around = 0): (number | null)[] {
  const shown = new Set<number>();
  lines.forEach((line, place) => {
    if (!isWanted(line, place)) return;
    for (let near = Math.max(0, place - around); near <= Math.min(lines.length - 1, place + around); near += 1) shown.add(near);
  });
  const found: (number | null)[] = [];
  let before = -1;
  for (const place of shown) {
    if (around > 0 && before >= 0 && place > before + 1) found.push(null);
    found.push(place);
    before = place;
  }
  return found;
}

/** Matching lines with context lines and marked gaps; all lines without a query. */
export function matching(lines: readonly string[], words: string, around = 0): string[] {
  const isWanted = words.trim() ? wantedLine(words) : () => true;
  if (!isWanted) return [];
  return chosen(lines, isWanted, around).map((place) => (place === null ? "---" : (lines[place] ?? "")));
}

/** Frames of a text recording, separated by form feeds. */
export function frames(text: string): string[] {
  return text === "" ? [] : text.split("\f").map((frame) => frame.split("\n").map(plain).join("\n"));
}
