import { expect, it } from "vitest";
import { isolated, namesOf, switched, toggled } from "@/charts/names";

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

it("shows one name alone, and all names again", () => {
  expect(isolated(["a", "b", "c"], [], "b")).toEqual(["a", "c"]);
  expect(isolated(["a", "b", "c"], ["b"], "b")).toEqual(["a", "c"]);
  expect(isolated(["a", "b", "c"], ["a", "c"], "b")).toEqual([]);
  expect(isolated(["a", "b", "c"], ["a", "c"], "a")).toEqual(["b", "c"]);
});
