import { expect, test } from "vitest";
import { unavailableReason } from "@/pages/run/evaluations/availability";

const run = { status: "running", policy_step: 3, allowed_verbs: ["pause"] } as const;
const look = (changed: Partial<Parameters<typeof unavailableReason>[0]>, mayOperate = true) =>
  unavailableReason({ ...run, allowed_verbs: [...run.allowed_verbs], ...changed }, mayOperate);

test("active runs can be evaluated, also while starting or paused", () => {
  expect([look({}), look({ status: "starting" }), look({ status: "paused" })]).toEqual(["", "", ""]);
});

test("explains missing workers", () => {
  expect(look({ status: "stopped", allowed_verbs: ["start"] })).toBe("The run is stopped: no worker can evaluate. Start it first.");
  expect(look({ status: "draining" })).toBe("The run is draining: no worker can evaluate.");
});

test("requires weights and permission", () => {
  expect(look({ policy_step: -2 })).toBe("No weights published yet.");
  expect(look({ policy_step: -1 })).toBe("");
  expect(look({}, false)).toBe("Requires the operator role.");
});
