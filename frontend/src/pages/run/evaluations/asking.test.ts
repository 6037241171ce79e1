import { expect, test } from "vitest";
import { whyNotNow } from "@/pages/run/evaluations/asking";

const run = { status: "running", policy_step: 3, allowed_verbs: ["pause"] } as const;
const look = (changed: Partial<Parameters<typeof whyNotNow>[0]>, mayOperate = true) =>
  whyNotNow({ ...run, allowed_verbs: [...run.allowed_verbs], ...changed }, mayOperate);

test("a run that is at work can be evaluated, also while it starts or pauses", () => {
  expect([look({}), look({ status: "starting" }), look({ status: "paused" })]).toEqual(["", "", ""]);
});

test("a run without workers says so, and how to get them", () => {
  expect(look({ status: "stopped", allowed_verbs: ["start"] })).toBe("The run is stopped: no worker can evaluate. Start it first.");
  expect(look({ status: "draining" })).toBe("The run is draining: no worker can evaluate.");
});

test("nothing is evaluated before there are weights, nor by those who may only look", () => {
  expect(look({ policy_step: -2 })).toBe("No weights published yet.");
  expect(look({ policy_step: -1 })).toBe("");
  expect(look({}, false)).toBe("Requires the operator role.");
});
