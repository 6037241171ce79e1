import { expect, it } from "vitest";
import { authorName, both } from "./merging";

it("keeps both texts of a conflict", () => {
  const together = both("theirs\n", "mine");
  expect(together).toBe("theirs\n\n---\n\nmine");
  expect(both("theirs", "theirs and mine")).toBe("theirs and mine");
  expect(both(" ", "mine")).toBe("mine");
});
it("shows user names", () => {
  expect([authorName("user:olga"), authorName("token:5")]).toEqual(["olga", "token:5"]);
});
