import { expect, it } from "vitest";
import { labelWidth } from "./plot";

it.each([
  [null, 48],
  [["0", "500"], 48],
  [["0", "250,000"], 58],
  [["-1,250,000", "0"], 77],
])("gives the labels %j a width of %d px", (labels, width) => expect(labelWidth(null, labels)).toBe(width));
