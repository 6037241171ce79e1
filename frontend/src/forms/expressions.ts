/**
 * Reject regular expressions with catastrophic backtracking. Pure.
 *
 * Expressions come from URLs or other users, and the names they match come from machines: together they
 * must not block a page. A quantifier over another quantifier or an alternation can take exponential
 * time for some input; so can a backreference.
 */

export const EXPRESSION_AT_MOST = 200;
const REPEATS = /^(?:[*+]|\{\d+(?:,\d*)?\})/;
/** `(?:`, `(?=`, `(?<name>` and similar: their characters are not quantifiers. */
const PREFIX = /^\(\?(?:[:=!]|<[=!]|<[^>]*>)/;
/** More quantifiers in sequence take too long even without nesting. */
const REPEATS_AT_MOST = 3;

type Group = { isWide: boolean };

/** Index of the end of a character class. */
function endOfClass(expression: string, from: number): number {
  let place = from + 1;
  while (place < expression.length && (expression[place] !== "]" || place === from + 1)) place += expression[place] === "\\" ? 2 : 1;
  return place;
}

/** Why a valid expression might not terminate; null if it is safe. */
export function whyEndless(expression: string): string | null {
  if (expression.length > EXPRESSION_AT_MOST) return `An expression has at most ${EXPRESSION_AT_MOST} characters.`;
  const groups: Group[] = [{ isWide: false }];
  let closed: Group | null = null;
  let repeats = 0;
  for (let place = 0; place < expression.length; place += 1) {
    const sign = expression[place] as string;
    const group = groups.at(-1) as Group;
    const repeat = REPEATS.exec(expression.slice(place))?.[0];
    if (repeat) {
      if (closed?.isWide) return "Nested quantifiers or a quantified alternation: the expression might not terminate.";
      repeats += 1;
      if (repeats > REPEATS_AT_MOST) return `More than ${REPEATS_AT_MOST} quantifiers: the expression might not terminate.`;
      group.isWide = true;
      place += repeat.length - 1;
      closed = null;
      continue;
    }
    closed = null;
    if (sign === "\\") {
      if (/[1-9k]/.test(expression[place + 1] ?? "")) return "Backreference: the expression might not terminate.";
      place += 1;
    } else if (sign === "[") place = endOfClass(expression, place);
    else if (sign === "(") {
      groups.push({ isWide: false });
      place += (PREFIX.exec(expression.slice(place))?.[0].length ?? 1) - 1;
    } else if (sign === "|" || sign === "?") group.isWide = true;
    else if (sign === ")" && groups.length > 1) {
      closed = groups.pop() as Group;
      if (closed.isWide) (groups.at(-1) as Group).isWide = true;
    }
  }
  return null;
}
