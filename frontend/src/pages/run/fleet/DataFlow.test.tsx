import { expect, it } from "vitest";
import { heldText, limitText, lookOf, markOf, rateText, shareText, stillText, waitText } from "./DataFlow";

it("formats slow rates per minute", () => {
  expect(rateText(12.5, "fragments")).toEqual({ amount: "12.5", unit: "fragments per second" });
  expect(rateText(0.05, "batches")).toEqual({ amount: "3", unit: "batches per minute" });
  expect(rateText(null, "batches")).toEqual({ amount: "–", unit: "batches" });
});

it("describes waits, or nothing if unmeasured", () => {
  const limit = limitText({ max_staleness: 1 });
  expect(waitText({ waits: 0.62, waits_for: "data" }, limit)).toBe("waits 62 % of the time for data");
  expect(waitText({ waits: 0, waits_for: "" }, limit)).toBe("never waits");
  expect(waitText({ waits: null, waits_for: "" }, limit)).toBe("");
});

it("names the limit that holds workers back", () => {
  const held = { waits: 0.51, waits_for: "room" } as const;
  expect(waitText(held, limitText({ max_staleness: 1 }))).toBe("held back 51 % of the time by the staleness limit (1)");
  expect(waitText(held, limitText({ max_staleness: null }))).toBe("held back 51 % of the time by the off-policy tolerance");
});

it("covers every stage of the diagnosis", () => {
  expect(lookOf("exchange", "fleet").title).toBe("Observations and actions");
  expect(stillText({ name: "exchange", share: 0.2 }, 4)).toBe("every step");
});

it("describes a stage's contents", () => {
  expect(heldText({ name: "queue", held: 6, seconds: 15 }, "fragments")).toBe("6 fragments queued · 15 s each");
  expect(heldText({ name: "batch", held: 2, seconds: 0.25 }, "fragments")).toBe("2 complete batches available · 250 ms delivery time");
  expect(heldText({ name: "push", held: 3, seconds: null }, "fragments")).toBe("3 waiting to be sent");
  expect(heldText({ name: "train", held: null, seconds: 1.5 }, "fragments")).toBe("1.5 s per batch");
});

it("names the stage of a language worker", () => {
  expect(lookOf("infer", "language").title).toBe("Model");
  expect(lookOf("infer", "fleet").title).toBe("Policy");
});

it("shows a queue's excess over its tolerance", () => {
  expect(shareText({ name: "queue", share: 1 }, { queued: 224, pause_above: 96 })).toBe("233 % of its tolerance");
  expect(shareText({ name: "train", share: 0.4 }, { queued: 0, pause_above: null })).toBe("busy 40 % of the time");
  expect(shareText({ name: "batch", share: 0.02 }, { queued: 0, pause_above: null })).toBe("in delivery 2 % of the time");
});

it("explains a missing rate", () => {
  expect(stillText({ name: "infer", share: 0.2 }, 4)).toBe("every step");
  expect(stillText({ name: "step", share: null }, 0)).toBe("no running workers");
  expect(stillText({ name: "push", share: null }, 0)).toBe("none in the last minute");
});

it("only a diagnosis of the pace marks its stage as the bottleneck", () => {
  expect(["producers_slow", "trainer_slow", "delivery_slow", "staleness_limit"].map(markOf)).toEqual(Array(4).fill("bottleneck"));
  expect(["weights_late", "training_stalled", "pushes_refused"].map(markOf)).toEqual(Array(3).fill("blocked here"));
});
