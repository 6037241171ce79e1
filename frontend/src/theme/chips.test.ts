import { expect, it } from "vitest";
import { honest, isOver, lookOf } from "./chips";

it("requires a recent heartbeat", () => {
  expect(honest("running", 4, 5)).toBe("running");
  expect(honest("running", 6, 5)).toBe("unknown");
  expect(honest("paused", 60, 15)).toBe("unknown");
});

it("keeps states without a heartbeat", () => {
  expect(honest("completed", 1e6, 5)).toBe("completed");
  expect(honest("running", null, 5)).toBe("running");
});

it("shows end time or duration", () => {
  expect(["completed", "stopped", "failed"].every(isOver)).toBe(true);
  expect(["running", "paused", "draft", "graduated"].some(isOver)).toBe(false);
});

it("gives every state a symbol", () => {
  const signs = ["running", "paused", "failed", "unknown", "completed"].map((state) => lookOf(state).sign);
  expect(new Set(signs).size).toBe(signs.length);
  expect(lookOf("something new").tone).toBe("quiet");
});
