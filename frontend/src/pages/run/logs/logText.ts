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

/** Frames of a text recording, separated by form feeds. */
export function frames(text: string): string[] {
  return text === "" ? [] : text.split("\f").map((frame) => frame.split("\n").map(plain).join("\n"));
}
