import { expect, it } from "vitest";
import { processOf, textOf } from "./logAddress";

it.each([
  ["manager", { worker: null, slot: null }],
  ["3", { worker: 3, slot: null }],
  ["3.0", { worker: 3, slot: 0 }],
])("%s round-trips", (text, place) => {
  expect(processOf(text)).toEqual(place);
  expect(textOf(place)).toBe(text);
});
it("rejects other values", () => {
  expect(["", "x", "-1", "1.2.3"].map(processOf)).toEqual([null, null, null, null]);
});
