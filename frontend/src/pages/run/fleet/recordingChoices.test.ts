import { describe, expect, it } from "vitest";
import type { SlotReport } from "@/api/types";
import { choice, slotChoices, workerChoices } from "@/pages/run/fleet/recordingChoices";

const slots = [0, 1].map((slot) => ({ slot }) as SlotReport);
const workers = [
  { index: 0, state: "running" as const, slots },
  { index: 2, state: "stopped" as const, slots: [] },
];
const values = (choices: { value: string }[]) => choices.map(({ value }) => value);

describe("recording choices", () => {
  it("list any worker and running workers", () => {
    expect(values(workerChoices(workers))).toEqual(["any", "0"]);
  });

  it("list any slot and slots of the chosen worker", () => {
    expect(values(slotChoices(workers, 0))).toEqual(["any", "0", "1"]);
    expect(values(slotChoices(workers, null))).toEqual(["any"]);
    expect(values(slotChoices(workers, 9))).toEqual(["any"]);
  });

  it("are numbers, or null for any", () => {
    expect([choice("any"), choice("0"), choice("12")]).toEqual([null, 0, 12]);
  });
});
