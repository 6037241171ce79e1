/** Show what processes wrote: as text, whatever it is. */

import { visible } from "@/format";

const ESCAPES = /\u001b\[[0-?]*[ -/]*[@-~]?|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ -/]*[0-~]?/g;

/** A line without escape sequences, its control characters made visible. */
export function plain(line: string): string {
  return visible(line.replace(ESCAPES, ""));
}

/** What asks for a line: its words whatever their case, or an expression between slashes; null of a broken one. */
export function wantedLine(words: string): ((line: string) => boolean) | null {
  const asked = words.trim();
  const expression = /^\/(.+)\/$/.exec(asked)?.[1];
  if (expression === undefined) return (line) => line.toLowerCase().includes(asked.toLowerCase());
  try {
    const found = new RegExp(expression, "i");
    return (line) => found.test(line);
  } catch {
    return null;
  }
}

/** The lines that are asked for, and so many around each; a gap is marked. All of them where nothing is asked. */
export function matching(lines: readonly string[], words: string, around = 0): string[] {
  const isWanted = words.trim() ? wantedLine(words) : () => true;
  if (!isWanted) return [];
  const shown = new Set<number>();
  lines.forEach((line, at) => {
    if (!isWanted(line)) return;
    for (let near = Math.max(0, at - around); near <= Math.min(lines.length - 1, at + around); near += 1) shown.add(near);
  });
  const found: string[] = [];
  let before = -1;
  for (const at of shown) {
    if (around > 0 && before >= 0 && at > before + 1) found.push("---");
    found.push(lines[at] ?? "");
    before = at;
  }
  return found;
}

/** Frames of a text recording: a form feed lies between two. */
export function frames(film: string): string[] {
  return film === "" ? [] : film.split("\f").map((frame) => frame.split("\n").map(plain).join("\n"));
}
