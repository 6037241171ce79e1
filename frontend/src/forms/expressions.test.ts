import { expect, it } from "vitest";
import { matched } from "@/wall/panels";
import { EXPRESSION_AT_MOST, whyEndless } from "./expressions";

it.each([
  "^layer/\\d+/norm$",
  "loss|reward",
  "(train|eval)/loss",
  "a.*b.*c",
  "[(+*]+",
  "\\(a\\+",
  "x{2,3}",
  "layer/\\d+/.*(q|k)_proj.*",
  "(?=a)b",
  "train/(kl|entropy)_mean$",
  "(?:grad|param)_norm",
])("accepts %s", (expression) => {
  expect(() => new RegExp(expression)).not.toThrow();
  expect(whyEndless(expression)).toBeNull();
});

it.each([
  "(a+)+$",
  "(a*)*b",
  "(a|a)*$",
  "(?:x+x+)+y",
  "((a+))+",
  "(a|b?)+c",
  "(.*)\\1",
  "(?<n>a)\\k<n>",
  "a*a*a*a*b",
  "(a{2,})+",
  "x".repeat(EXPRESSION_AT_MOST + 1),
])("refuses %s", (expression) => expect(whyEndless(expression)).not.toBeNull());

it("rejects a catastrophic expression in time", () => {
  const names = Array.from({ length: 2_000 }, (_, i) => `${"a".repeat(60)}${i}!`);
  const began = performance.now();
  for (const expression of ["(a+)+$", "(a|a)*$", "a*a*a*b", "^(a?){40}a{40}$"]) matched(names, expression);
  expect(performance.now() - began).toBeLessThan(5_000);
  expect(matched(names, "(a+)+$").problem).toContain("not terminate");
});
