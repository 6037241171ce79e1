import { expect, it } from "vitest";
import { incompleteText } from "@/pages/run/queue/incomplete";

it("adds up what waits, the largest first, beside what it has to come to", () => {
  expect(incompleteText({ waiting_sizes: { "1": 1, "3": 2 }, group_size: 8 })).toBe("2 × 3 + 1 × 1 = 7 sequences, for groups of 8");
  expect(incompleteText({ waiting_sizes: { "2": 1 }, group_size: null })).toBe("1 × 2 sequences");
});

it("says nothing where nothing waits by size", () => {
  expect(incompleteText({ waiting_sizes: {}, group_size: 8 })).toBe("");
  expect(incompleteText({ waiting_sizes: { "2": 0 }, group_size: 8 })).toBe("");
});
