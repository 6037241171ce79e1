import { expect, test } from "vitest";
import { typedAfter } from "@/shell/palette/usePalette";

test("keeps keys pressed before focus", () => {
  const keys = ["p", "i", "x", "Backspace", "p", "Shift", "é"];

  expect(keys.reduce((text, key) => typedAfter(text, key) ?? text, "")).toBe("pipé");
  expect(["Enter", "ArrowDown", "Escape", "F1"].map((key) => typedAfter("pip", key))).toEqual([null, null, null, null]);
});
