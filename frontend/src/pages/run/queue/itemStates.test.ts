import { expect, it } from "vitest";
import { truncatedText } from "./itemStates";

it("counts truncated groups", () => {
  expect(truncatedText(0)).toBe("");
  expect(truncatedText(1)).toBe("1 group truncated to the maximum length");
  expect(truncatedText(1200)).toBe("1,200 groups truncated to the maximum length");
});
