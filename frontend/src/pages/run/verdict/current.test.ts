import { expect, it } from "vitest";
import { currentVerdict } from "./current";

const made = { sentence: "The trainer is the bottleneck.", stage: "train" as const, proof: [], change: "", run_status: "running" };

it("drops a diagnosis from before a pause", () => {
  expect(currentVerdict(made, { status: "running" })).toBe(made);
  expect(currentVerdict(made, { status: "paused" })).toBeUndefined();
  expect(currentVerdict(undefined, { status: "paused" })).toBeUndefined();
});
