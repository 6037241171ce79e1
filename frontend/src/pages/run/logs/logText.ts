/** Show what processes wrote: as text, whatever it is. */

import { visible } from "@/format";
import { whyEndless } from "@/forms/expressions";

const ESCAPES = /\u001b\[[0-?]*[ -/]*[@-~]?|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ -/]*[0-~]?/g;

/** A line without escape sequences, its control characters made visible. */
export function plain(line: string): string {
  return visible(line.replace(ESCAPES, ""));
}

/** What asks for a line: its words whatever their case, or an expression between slashes; null of one that is broken or might never end. */
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

/** Places of the lines that are wanted, and of so many around each; null is a gap between them. */
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

/** The lines that are asked for, and so many around each; a gap is marked. All of them where nothing is asked. */
export function matching(lines: readonly string[], words: string, around = 0): string[] {
  const isWanted = words.trim() ? wantedLine(words) : () => true;
  if (!isWanted) return [];
  return chosen(lines, isWanted, around).map((place) => (place === null ? "---" : (lines[place] ?? "")));
}

/** Frames of a text recording: a form feed lies between two. */
export function frames(film: string): string[] {
  return film === "" ? [] : film.split("\f").map((frame) => frame.split("\n").map(plain).join("\n"));
}
