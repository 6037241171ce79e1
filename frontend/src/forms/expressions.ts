/**
 * Reject regular expressions with catastrophic backtracking. Pure.
 *
 * Expressions come from URLs or other users, and the names they match come from machines: together they
 * must not block a page. A repeated group or a backreference can take exponential time for some input.
 */

export const EXPRESSION_AT_MOST = 200;
/** More quantifiers take too long even in sequence. */
const REPEATS_AT_MOST = 3;

/** Why a valid expression might not terminate; null if it is safe. */
export function whyEndless(expression: string): string | null {
  if (expression.length > EXPRESSION_AT_MOST) return `An expression has at most ${EXPRESSION_AT_MOST} characters.`;
  if (/\\[1-9k]/.test(expression)) return "Backreference: the expression might not terminate.";
  // Escaped characters and character classes count as one character.
  const plain = expression.replace(/\\.|\[\^?\]?(?:\\.|[^\]\\])*\]/g, "x");
  if (/\)(?:[*+]|\{)/.test(plain)) return "Repeated group: the expression might not terminate.";
  const repeats = plain.match(/[*+]|\{\d/g)?.length ?? 0;
  return repeats > REPEATS_AT_MOST ? `More than ${REPEATS_AT_MOST} quantifiers: the expression might not terminate.` : null;
}
