/**
 * Expressions of metrics: `+ - * / ( )`, numbers, functions and names of metrics. Pure.
 *
 *     sum     = product { ("+" | "-") product }
 *     product = unary { ("*" | "/") unary }
 *     unary   = "-" unary | atom
 *     atom    = number | name | function "(" sum ")" | "(" sum ")"
 *
 * A bare name has letters, digits and `_ . : /`; a slash between two of them belongs to the name, so that a
 * division of names needs a space. Other names stand in backquotes.
 */

type Values = (name: string) => number | null;
export type Expression = { names: string[]; evaluate: (read: Values) => number | null };
export type Parsed = { expression: Expression; problem: null } | { expression: null; problem: string };

const FUNCTIONS: Record<string, (value: number) => number> = { abs: Math.abs, exp: Math.exp, log: Math.log, sqrt: Math.sqrt };
const TOKEN = /\s*(?:(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?)|`([^`]+)`|([A-Za-z_][\w.:]*(?:\/[\w.:]+)*)|([-+*/()]))/iy;

type Token = { kind: "number" | "quoted" | "name" | "sign" | "end"; text: string; at: number };
type Term = (read: Values) => number;

class Problem extends Error {}

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  const end = text.trimEnd().length;
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < end) {
    const begin = TOKEN.lastIndex;
    const found = TOKEN.exec(text);
    const at = begin + (/^\s*/.exec(text.slice(begin))?.[0].length ?? 0);
    if (!found) {
      if (text[at] === "`") throw new Problem(`Character ${at + 1}: the name has no closing backquote.`);
      throw new Problem(`Character ${at + 1}: unexpected “${text[at]}”; names with other characters need backquotes.`);
    }
    const [, number, quoted, name, sign] = found;
    const kind = number ? "number" : quoted ? "quoted" : name ? "name" : "sign";
    tokens.push({ kind, text: number ?? quoted ?? name ?? sign ?? "", at });
  }
  return [...tokens, { kind: "end", text: "", at: end }];
}

function parse(text: string): Expression {
  const tokens = tokensOf(text);
  const names = new Set<string>();
  let place = 0;
  const peek = () => tokens[place] as Token;
  const isSign = (...signs: string[]) => peek().kind === "sign" && signs.includes(peek().text);
  const fail = (wanted: string): never => {
    const { kind, text: found, at } = peek();
    throw new Problem(`Character ${at + 1}: expected ${wanted}, found ${kind === "end" ? "the end" : `“${found}”`}.`);
  };
  const take = (): Token => tokens[place++] as Token;
  const close = () => (isSign(")") ? take() : fail("an operator or “)”"));

  const chain = (next: () => Term, signs: string[], apply: (sign: string, a: number, b: number) => number): Term => {
    let left = next();
    while (isSign(...signs)) {
      const [sign, before, after] = [take().text, left, next()];
      left = (read) => apply(sign, before(read), after(read));
    }
    return left;
  };
  const sum = (): Term => chain(product, ["+", "-"], (sign, a, b) => (sign === "+" ? a + b : a - b));
  const product = (): Term => chain(unary, ["*", "/"], (sign, a, b) => (sign === "*" ? a * b : a / b));
  const unary = (): Term => {
    if (!isSign("-")) return atom();
    take();
    const of = unary();
    return (read) => -of(read);
  };
  const group = (): Term => {
    take();
    const inner = sum();
    close();
    return inner;
  };
  const atom = (): Term => {
    if (isSign("(")) return group();
    if (peek().kind === "sign" || peek().kind === "end") return fail("a metric, a number or “(”");
    const { kind, text: word } = take();
    if (kind === "number") return () => Number(word);
    const apply = kind === "name" && Object.hasOwn(FUNCTIONS, word) ? FUNCTIONS[word] : undefined;
    if (apply && isSign("(")) {
      const of = group();
      return (read) => apply(of(read));
    }
    if (kind === "name" && isSign("(")) return fail(`an operator (functions are ${Object.keys(FUNCTIONS).join(", ")})`);
    names.add(word);
    return (read) => read(word) ?? Number.NaN;
  };

  const whole = sum();
  if (peek().kind !== "end") fail("an operator");
  if (names.size === 0) throw new Problem("The expression names no metric.");
  const evaluate = (read: Values) => {
    const value = whole(read);
    return Number.isFinite(value) ? value : null;
  };
  return { names: [...names], evaluate };
}

/** The expression of a text, which may begin with `=`, or its error with the place. Values that are not finite are gaps. */
export function parsed(text: string): Parsed {
  try {
    return { expression: parse(text.replace(/^=/, " ")), problem: null };
  } catch (error) {
    if (error instanceof Problem) return { expression: null, problem: error.message };
    throw error;
  }
}
