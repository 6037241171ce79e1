import { expect, it } from "vitest";
import { incompleteText } from "@/pages/run/queue/incomplete";

it("sums waiting sizes against the group size", () => {
  expect(incompleteText({ waiting_sizes: { "1": 1, "3": 2 }, group_size: 8 })).toBe("2 × 3 + 1 × 1 = 7 sequences, for groups of 8");
  expect(incompleteText({ waiting_sizes: { "2": 1 }, group_size: null })).toBe("1 × 2 sequences");
});

it("is empty without waiting sizes", () => {
  expect(incompleteText({ waiting_sizes: {}, group_size: 8 })).toBe("");
  expect(incompleteText({ waiting_sizes: { "2": 0 }, group_size: 8 })).toBe("");
});
