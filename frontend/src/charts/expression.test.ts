import { expect, it } from "vitest";
import { parsed } from "./expression";

const values: Record<string, number> = { a: 6, b: 2, zero: 0, "train/loss": 8, "kl-mean": 4, log: 3 };
const result = (text: string) => parsed(text).expression?.evaluate((name) => values[name] ?? null);

it.each([
  ["a / b", 3],
  ["a - b - 1", 3],
  ["a + b * 2", 10],
  ["(a + b) * 2", 16],
  ["a / b / 3", 1],
  ["-a + 1.5e1", 9],
  ["2 * -b", -4],
  ["a+-b", 4],
  ["train/loss / b", 4],
  ["train/loss", 8],
  ["`kl-mean` * .5", 2],
  ["log(exp(b))", 2],
  ["sqrt(abs(-`kl-mean`))", 2],
  ["log * 2", 6],
])("evaluates %s", (text, value) => {
  expect(result(text)).toBeCloseTo(value);
});

it.each(["a / zero", "zero / zero", "log(zero)", "log(-a)", "unmeasured + 1", "exp(a * 1000)"])("has a gap at %s", (text) => {
  expect(result(text)).toBeNull();
});

it("names each metric once", () => {
  expect(parsed("a / (a + `kl-mean`)").expression?.names).toEqual(["a", "kl-mean"]);
});

it.each([
  ["", "Character 1: expected a metric, a number or “(”, found the end."],
  ["a /", "Character 4: expected a metric, a number or “(”, found the end."],
  ["a ** b", "Character 4: expected a metric, a number or “(”, found “*”."],
  ["a b", "Character 3: expected an operator, found “b”."],
  ["(a + b", "Character 7: expected an operator or “)”, found the end."],
  ["a + b)", "Character 6: expected an operator, found “)”."],
  ["a ? b", "Character 3: unexpected “?”; names with other characters need backquotes."],
  ["2 * `kl", "Character 5: the name has no closing backquote."],
  ["sin(a)", "Character 4: expected an operator (functions are abs, exp, log, sqrt), found “(”."],
  ["constructor(a)", "Character 12: expected an operator (functions are abs, exp, log, sqrt), found “(”."],
  ["1 + 2", "The expression names no metric."],
])("refuses %j with the place", (text, problem) => {
  expect(parsed(text)).toEqual({ expression: null, problem });
});

it("counts the sign before an expression as a character", () => {
  expect(parsed("= a / b").expression?.names).toEqual(["a", "b"]);
  expect(parsed("=a b").problem).toBe("Character 4: expected an operator, found “b”.");
});

it("parses the longest expressions that a panel may have", () => {
  expect(parsed(`${"(".repeat(99)}a${")".repeat(99)}`).expression?.names).toEqual(["a"]);
});
