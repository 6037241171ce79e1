/** Show what processes wrote: as text, whatever it is. */

import { visible } from "@/format";

const ESCAPES = /\u001b\[[0-?]*[ -/]*[@-~]?|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ -/]*[0-~]?/g;

/** A line without escape sequences, its control characters made visible. */
export function plain(line: string): string {
  return visible(line.replace(ESCAPES, ""));
}

/** The lines that hold the words, whatever their case; all for no words. */
export function matching(lines: readonly string[], words: string): string[] {
  const wanted = words.trim().toLowerCase();
  return wanted ? lines.filter((line) => line.toLowerCase().includes(wanted)) : [...lines];
}

/** Frames of a text recording: a form feed lies between two. */
export function frames(film: string): string[] {
  return film === "" ? [] : film.split("\f").map((frame) => frame.split("\n").map(plain).join("\n"));
}
