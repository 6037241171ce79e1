import { expect, test } from "vitest";
import { appliedText, isSteered, isStopped, manualText, nameOf, whyNotEvaluate, whyNotSteer } from "@/pages/run/curriculum/steering";

test("describes an override", () => {
  expect(manualText({ hold: "locked", weight_factor: 1 })).toBe("held locked");
  expect(manualText({ hold: "active", weight_factor: 0.5 })).toBe("held unlocked, weight × 0.5");
  expect([isSteered({ hold: "", weight_factor: 1 }), isSteered({ hold: "", weight_factor: 2 })]).toEqual([false, true]);
  expect([nameOf("user:ada"), nameOf("token:7")]).toEqual(["ada", "token:7"]);
});

test("a lesson that a failure has stopped is not steered manually", () => {
  const stopped = { name: "sums", hold: "stopped", weight_factor: 1 } as const;
  expect([isStopped(stopped), isSteered(stopped), isSteered({ ...stopped, weight_factor: 2 })]).toEqual([true, false, true]);
});

test("is applied once all workers have requested tasks", () => {
  expect(appliedText({ steered: 0, awaited: [] })).toBe("");
  expect(appliedText({ steered: 1, awaited: ["w1@2"] })).toBe("1 lesson is steered manually; not yet applied by w1@2.");
  expect(appliedText({ steered: 2, awaited: [] })).toBe("2 lessons are steered manually; applied by all workers.");
  expect(appliedText({ steered: 0, awaited: ["a", "b", "c", "d", "e"] })).toMatch(
    /^No lesson is steered manually; not yet applied by a, b, c, d and 1 more/,
  );
});

test("explains why steering is disabled", () => {
  expect(whyNotSteer({ status: "completed" }, true)).toBe("The run is completed: its lessons are read-only.");
  expect(whyNotSteer({ status: "running" }, false)).toBe("Requires the operator role.");
  expect(whyNotSteer({ status: "paused" }, true)).toBe("");
});

const run = { status: "running", policy_step: 3, allowed_verbs: ["pause"] } as const;
const look = (changed: Partial<Parameters<typeof whyNotEvaluate>[0]>, mayOperate = true) =>
  whyNotEvaluate({ ...run, allowed_verbs: [...run.allowed_verbs], ...changed }, mayOperate);

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
