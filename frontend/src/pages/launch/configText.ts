/** Parse and format a configuration as JSON, with error positions. Pure. */

import { errorPosition } from "@/pages/launch/jsonErrors";

export type Config = Record<string, unknown>;
export type Format = "json" | "yaml";
/** The parsed configuration, or the error. */
export type Read = { config: Config } | { problem: string };

export const isConfig = (value: unknown): value is Config => typeof value === "object" && value !== null && !Array.isArray(value);

/** A 1-based position in a text. */
export function placeText(line: number, column: number): string {
  return `line ${line}, column ${column}`;
}

/** The position of the character at `offset`. */
export function placeAt(text: string, offset: number): string {
  const before = text.slice(0, offset).split("\n");
  return placeText(before.length, (before.at(-1)?.length ?? 0) + 1);
}

export function jsonOf(config: Config): string {
  return JSON.stringify(config, null, 2);
}

export function readJson(text: string): Read {
  try {
    const value: unknown = JSON.parse(text);
    return isConfig(value) ? { config: value } : { problem: "A JSON object is required: { … }." };
  } catch {
    const { offset, wanted } = errorPosition(text);
    return { problem: `Invalid JSON at ${placeAt(text, offset)}: expected ${wanted}.` };
  }
}

/** The format of a pasted text; the shown format if both are possible. */
export function formatOf(text: string, shown: Format): Format {
  if (text.trim() === "") return shown;
  if ("config" in readJson(text)) return "json";
  return /^\s*[{[]/.test(text) ? shown : "yaml";
}

const KEY = "rolldeck-config-format";

/** The last format used in this browser. */
export function savedFormat(): Format {
  try {
    return localStorage.getItem(KEY) === "yaml" ? "yaml" : "json";
  } catch {
    return "json";
  }
}

export function saveFormat(format: Format): void {
  try {
    localStorage.setItem(KEY, format);
  } catch {
    // It holds until the page is closed.
  }
}
