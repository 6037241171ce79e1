/**
 * Know expressions that a browser may never finish. Pure.
 *
 * An expression comes with an address or with what somebody else keeps, and the names with it come
 * from machines: together they must not hold a page up. What repeats something that itself repeats
 * or branches takes time without end for some text; so does what refers back to a group.
 */

export const EXPRESSION_AT_MOST = 200;
const REPEATS = /^(?:[*+]|\{\d+(?:,\d*)?\})/;
/** `(?:`, `(?=`, `(?<name>` and the like: their marks repeat nothing. */
const PREFIX = /^\(\?(?:[:=!]|<[=!]|<[^>]*>)/;
/** More of them one after the other take too long even without one within another. */
const REPEATS_AT_MOST = 3;

type Group = { isWide: boolean };

/** Where the class that begins at a place ends. */
function endOfClass(expression: string, from: number): number {
  let place = from + 1;
  while (place < expression.length && (expression[place] !== "]" || place === from + 1)) place += expression[place] === "\\" ? 2 : 1;
  return place;
}

/** Why an expression, which can be read, might never end; null of one that ends soon. */
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
      if (closed?.isWide) return "This expression repeats what repeats or branches within: it might never end.";
      repeats += 1;
      if (repeats > REPEATS_AT_MOST) return `This expression repeats more than ${REPEATS_AT_MOST} things: it might never end.`;
      group.isWide = true;
      place += repeat.length - 1;
      closed = null;
      continue;
    }
    closed = null;
    if (sign === "\\") {
      if (/[1-9k]/.test(expression[place + 1] ?? "")) return "This expression refers back to a group: it might never end.";
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
