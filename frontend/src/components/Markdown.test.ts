import { expect, it } from "vitest";
import { mayHaveMath, withMath } from "@/components/Markdown";

it.each([
  ["the sum \\(a+b\\) is", "the sum $$a+b$$ is"],
  ["so \\[x^2\\] ends", "so \n$$\nx^2\n$$\n ends"],
  ["$$\\frac{1}{2}$$", "\n$$\n\\frac{1}{2}\n$$\n"],
  ["let $x$ and $y_1$ be", "let $$x$$ and $$y_1$$ be"],
  ["it costs $5 and $10", "it costs $5 and $10"],
  ["from $5-$10", "from $5-$10"],
  ["a $ b $ c", "a $ b $ c"],
  ["`$x$` and ```\n$y$\n```", "`$x$` and ```\n$y$\n```"],
  ["~~~\n\\(a\\)\n~~~", "~~~\n\\(a\\)\n~~~"],
  ["an escaped \\$x$", "an escaped \\$x$"],
  ["US$100$x", "US$100$x"],
  ["an open \\( stays", "an open \\( stays"],
])("writes formulas in one form: %j", (text, expected) => {
  expect(withMath(text)).toBe(expected);
});

it.each(["\\[", "\\(", "$$a", "$a", "```", "`a"])("reads a long text of %j without a long pause", (piece) => {
  const began = performance.now();
  withMath(piece.repeat(30_000));
  expect(performance.now() - began).toBeLessThan(2_000);
});

it("needs the library of formulas only where there may be one", () => {
  expect(["plain", "it costs $5", "`code`"].map(mayHaveMath)).toEqual([false, false, false]);
  expect(["$x$", "\\(x\\)", "\\[x\\]"].map(mayHaveMath)).toEqual([true, true, true]);
});
