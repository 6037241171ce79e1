/** Where a text becomes too long for a line of a list. Pure. */

const SHOWN = 400;
/** Nobody is asked to unfold a few words. */
const UNFOLDED_FOR = 200;

/** The text itself, or its beginning where it is much longer; no character is cut in two. */
export function beginningOf(text: string): string {
  if (text.length <= SHOWN + UNFOLDED_FOR) return text;
  return text.slice(0, SHOWN).replace(/[\uD800-\uDBFF]$/, "");
}
