import { expect, test } from "vitest";
import { beginningOf } from "./beginning";

test("a text of a few lines is shown as it is", () => {
  const text = "x".repeat(600);
  expect(beginningOf(text)).toBe(text);
});

test("of a long one its beginning is shown", () => {
  expect(beginningOf("unbroken".repeat(2500))).toBe("unbroken".repeat(50));
});

test("a character of two halves stays whole", () => {
  expect(beginningOf(`${"x".repeat(399)}${"🂡".repeat(400)}`)).toBe("x".repeat(399));
});
