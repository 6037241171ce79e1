import { describe, expect, it } from "vitest";
import { inOrder, outcomesOf, place, rangeOf, spreadOf } from "@/pages/run/episodes/distribution";

const spread = (p5: number, p95: number) => ({ p5, p25: p5, p50: p5, p75: p95, p95 });

describe("percentiles", () => {
  it("are five or null", () => {
    expect(spreadOf({ "5": 1, "25": 2, "50": 3, "75": 4, "95": 5 })).toEqual({ p5: 1, p25: 2, p50: 3, p75: 4, p95: 5 });
    expect(spreadOf({})).toBeNull();
  });

  it("of several rows share one range", () => {
    expect(rangeOf([spread(-3, 2), null, spread(0, 9)])).toEqual({ low: -3, high: 9 });
    expect(rangeOf([null])).toBeNull();
  });

  it("are placed in the range, centred if it is empty", () => {
    expect([-3, 0, 9].map((value) => place(value, { low: -3, high: 9 }))).toEqual([0, 25, 100]);
    expect(place(4, { low: 4, high: 4 })).toBe(50);
  });
});

describe("environments", () => {
  it("are sorted by name, training before evaluation", () => {
    const tasks = [
      { environment: "b", mode: "train" },
      { environment: "a", mode: "eval" },
      { environment: "a", mode: "train" },
    ] as const;
    expect(inOrder(tasks).map(({ environment, mode }) => `${environment} ${mode}`)).toEqual(["a train", "a eval", "b train"]);
  });
});

describe("outcomes", () => {
  it("have their shares of all episodes", () => {
    expect(outcomesOf({ terminated: 3, truncated: 1, aborted: 0 }).map(({ part }) => part)).toEqual([0.75, 0.25, 0]);
    expect(outcomesOf({ terminated: 0, truncated: 0, aborted: 0 }).every(({ part }) => part === 0)).toBe(true);
  });
});
