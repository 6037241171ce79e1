import { expect, it } from "vitest";
import { revisionOf } from "./revisions";

it("finds what was changed among an event's details", () => {
  const details = { env_id: 0, weight: { before: 1, after: 2.5 }, max_staleness: { before: 4, after: null }, advantages: { before: "", after: "rloo" } };
  expect(revisionOf({ details })).toEqual([
    { name: "weight", before: "1", after: "2.5" },
    { name: "max_staleness", before: "4", after: "none" },
    { name: "advantages", before: "empty", after: "rloo" },
  ]);
  expect(revisionOf({ details: { from: "running", to: "paused" } })).toEqual([]);
});
