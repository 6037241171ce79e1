import { expect, it } from "vitest";
import { namesOf, switched, toggled } from "./names";

it("reads each name once and leaves out what is none", () => {
  expect(namesOf("a, b,,a")).toEqual(["a", "b"]);
  expect(namesOf(undefined)).toEqual([]);
});

it("adds and takes away, and leaves nothing behind", () => {
  expect(switched("a,b", "c", true)).toBe("a,b,c");
  expect(switched("a,b", "a", true)).toBe("b,a");
  expect(switched("a", "a", false)).toBeUndefined();
  expect(toggled(toggled(["a"], "b"), "a")).toEqual(["b"]);
});
