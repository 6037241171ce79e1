/** Truncation of long texts in lists. Pure. */

const SHOWN = 400;
/** A shorter remainder is not worth expanding. */
const UNFOLDED_FOR = 200;

/** The text, truncated if it is much longer than the limit; never splits a surrogate pair. */
export function beginningOf(text: string): string {
  if (text.length <= SHOWN + UNFOLDED_FOR) return text;
  return text.slice(0, SHOWN).replace(/[\uD800-\uDBFF]$/, "");
}
