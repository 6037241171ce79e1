import { expect, test } from "vitest";
import { truncate } from "@/components/inline";

test("short texts are not truncated", () => {
  const text = "x".repeat(600);
  expect(truncate(text)).toBe(text);
});

test("long texts are truncated", () => {
  expect(truncate("unbroken".repeat(2500))).toBe("unbroken".repeat(50));
});

test("surrogate pairs are not split", () => {
  expect(truncate(`${"x".repeat(399)}${"🂡".repeat(400)}`)).toBe("x".repeat(399));
});
