import { expect, it } from "vitest";
import { heldText, markOf, rateText, waitText } from "./DataFlow";

const stage = { name: "train", rate: null, share: null, unit: "batches" } as const;

it("formats slow rates per minute", () => {
  expect(rateText({ ...stage, rate: 12.5, unit: "fragments" }, 1)).toBe("12.5 fragments per second");
  expect(rateText({ ...stage, rate: 0.05 }, 1)).toBe("3 batches per minute");
  expect(rateText({ ...stage, rate: 1 }, 1)).toBe("1 batch per second");
});

it("explains a missing rate", () => {
  expect(rateText({ ...stage, name: "infer", share: 0.2 }, 4)).toBe("every step");
  expect(rateText({ ...stage, name: "step" }, 0)).toBe("no running workers");
  expect(rateText({ ...stage, name: "push" }, 0)).toBe("none in the last minute");
});

it("describes waits, or nothing if unmeasured", () => {
  expect(waitText({ waits: 0.62, waits_for: "data" }, 1)).toBe("waits 62 % of the time for data");
  expect(waitText({ waits: 0, waits_for: "" }, 1)).toBe("never waits");
  expect(waitText({ waits: null, waits_for: "" }, 1)).toBe("");
});

it("names the limit that holds workers back", () => {
  const held = { waits: 0.51, waits_for: "room" } as const;
  expect(waitText(held, 1)).toBe("held back 51 % of the time by the staleness limit (1)");
  expect(waitText(held, null)).toBe("held back 51 % of the time by the off-policy tolerance");
});

it("describes a stage's contents", () => {
  expect(heldText({ name: "queue", held: 6, seconds: 15 }, "fragments")).toBe("6 fragments queued · 15 s each");
  expect(heldText({ name: "queue", held: 1, seconds: null }, "fragments")).toBe("1 fragment queued");
  expect(heldText({ name: "batch", held: 1, seconds: 0.25 }, "fragments")).toBe("1 complete batch available · 250 ms delivery time");
  expect(heldText({ name: "push", held: 3, seconds: null }, "fragments")).toBe("3 waiting to be sent");
  expect(heldText({ name: "train", held: null, seconds: 1.5 }, "fragments")).toBe("1.5 s per batch");
});

it("only a diagnosis of the pace marks its stage as the bottleneck", () => {
  expect(["producers_slow", "trainer_slow", "delivery_slow", "staleness_limit"].map(markOf)).toEqual(Array(4).fill("bottleneck"));
  expect(["weights_late", "training_stalled", "pushes_refused"].map(markOf)).toEqual(Array(3).fill("blocked here"));
});
