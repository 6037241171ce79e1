/** Search of form fields by title, path and description. Pure. */

import type { Field } from "@/forms/fields";

/** Return the fields that contain every word of a text, in any case; all fields for an empty text. */
export function matching(fields: Field[], text: string): Field[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return fields;
  return fields.filter(({ title, path, help, columns }) => {
    const inner = (columns ?? []).map((column) => `${column.title} ${column.path} ${column.help}`);
    const whole = [title, path, path.replaceAll("_", " "), help, ...inner].join("\n").toLowerCase();
    return words.every((word) => whole.includes(word));
  });
}

/** The result of a search, for the status line. */
export function matchesText(shown: number, of: number, hidden: Field[]): string {
  const found = shown === 0 ? "No field" : shown === 1 ? "1 field" : `${shown} fields`;
  const text = `${found} of ${of} ${shown > 1 ? "match" : "matches"}.`;
  if (hidden.length === 0) return text;
  return `${text} ${hidden.length} more ${hidden.length === 1 ? "does" : "do"} not apply: ${hidden.map(({ title }) => title).join(", ")}.`;
}
