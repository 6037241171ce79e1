import { expect, it } from "vitest";
import { changesIn } from "./changes";

it("extracts settings and states only", () => {
  expect(changesIn({ lease_seconds: { before: 60, after: 90 }, token: 7 })).toEqual([{ name: "lease_seconds", before: "60", after: "90" }]);
  expect(changesIn({ from: "running", to: "paused", verb: "pause" })).toEqual([{ name: "status", before: "running", after: "paused" }]);
  expect(changesIn({ tags: { before: [], after: ["a"] } })).toEqual([{ name: "tags", before: "[]", after: '["a"]' }]);
});
