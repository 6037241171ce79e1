import { expect, it } from "vitest";
import { paintedText } from "./paintLatencyText";

it("formats the paint latency with its uncertainty", () => {
  expect(paintedText({ ms: 180.4, errorMs: 3.2 })).toBe("The newest change was painted 180 ms after its commit (± 4 ms).");
  expect(paintedText({ ms: 2_340, errorMs: 40 })).toBe("The newest change was painted 2.34 s after its commit (± 40 ms).");
  expect(paintedText({ ms: 0, errorMs: 12 })).toBe("The newest change was painted within 12 ms of its commit.");
});
