import { expect, it } from "vitest";
import { honest, isOver, lookOf } from "./chips";

it("claims no life without a fresh proof", () => {
  expect(honest("running", 4, 5)).toBe("running");
  expect(honest("running", 6, 5)).toBe("unknown");
  expect(honest("paused", 60, 15)).toBe("unknown");
});

it("lets states that claim nothing stand", () => {
  expect(honest("completed", 1e6, 5)).toBe("completed");
  expect(honest("running", null, 5)).toBe("running");
});

it("tells when a run ended, and for how long one goes on", () => {
  expect(["completed", "stopped", "failed"].every(isOver)).toBe(true);
  expect(["running", "paused", "draft", "graduated"].some(isOver)).toBe(false);
});

it("gives every state a sign, not only a colour", () => {
  const signs = ["running", "paused", "failed", "unknown", "completed"].map((state) => lookOf(state).sign);
  expect(new Set(signs).size).toBe(signs.length);
  expect(lookOf("something new").tone).toBe("quiet");
});
