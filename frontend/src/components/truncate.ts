/** Truncation of long texts in lists. Pure. */

const MAX_LENGTH = 400;
/** A shorter remainder is not worth expanding. */
const MIN_REMAINDER = 200;

/** The text, truncated if it is much longer than the limit; never splits a surrogate pair. */
export function truncate(text: string): string {
  if (text.length <= MAX_LENGTH + MIN_REMAINDER) return text;
  return text.slice(0, MAX_LENGTH).replace(/[\uD800-\uDBFF]$/, "");
}
