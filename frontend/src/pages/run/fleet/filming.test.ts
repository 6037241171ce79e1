import { describe, expect, it } from "vitest";
import type { SlotReport } from "@/api/types";
import { choice, slotChoices, workerChoices } from "@/pages/run/fleet/filming";

const slots = [0, 1].map((slot) => ({ slot }) as SlotReport);
const workers = [
  { index: 0, state: "running" as const, slots },
  { index: 2, state: "stopped" as const, slots: [] },
];
const values = (choices: { value: string }[]) => choices.map(({ value }) => value);

describe("what may be filmed", () => {
  it("is any worker, or one that has not left", () => {
    expect(values(workerChoices(workers))).toEqual(["any", "0"]);
  });

  it("is any slot, or one of the chosen worker", () => {
    expect(values(slotChoices(workers, 0))).toEqual(["any", "0", "1"]);
    expect(values(slotChoices(workers, null))).toEqual(["any"]);
    expect(values(slotChoices(workers, 9))).toEqual(["any"]);
  });

  it("goes over the wire as numbers, and as null for any", () => {
    expect([choice("any"), choice("0"), choice("12")]).toEqual([null, 0, 12]);
  });
});
