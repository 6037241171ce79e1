import { expect, it } from "vitest";
import { namesOf, switched, toggled } from "./names";

it("parses unique names and drops invalid ones", () => {
  expect(namesOf("a, b,,a")).toEqual(["a", "b"]);
  expect(namesOf(undefined)).toEqual([]);
});

it("toggles names", () => {
  expect(switched("a,b", "c", true)).toBe("a,b,c");
  expect(switched("a,b", "a", true)).toBe("b,a");
  expect(switched("a", "a", false)).toBeUndefined();
  expect(toggled(toggled(["a"], "b"), "a")).toEqual(["b"]);
});
