import { expect, it } from "vitest";
import { currentDiagnosis } from "@/diagnosis/Diagnosis";

const made = {
  kind: "trainer_slow" as const,
  summary: "The trainer is the bottleneck.",
  stage: "train" as const,
  evidence: [],
  change: "",
  since: null,
  further: [],
  run_status: "running",
};

it("drops a diagnosis from before a pause", () => {
  expect(currentDiagnosis(made, { status: "running" })).toBe(made);
  expect(currentDiagnosis(made, { status: "paused" })).toBeUndefined();
  expect(currentDiagnosis(undefined, { status: "paused" })).toBeUndefined();
});
