import { expect, it } from "vitest";
import { metricsSearch, runsOf, spanOf } from "./search";

it("keeps what makes sense and leaves out the rest", () => {
  expect(metricsSearch({ q: 7, x: "time", from: 1, to: 2, smooth: 0.9, with: "b" })).toEqual({ q: "7", x: "time", from: 1, to: 2, smooth: 0.9, with: "b" });
  expect(Object.values(metricsSearch({ x: "moon", from: 2, to: 1, smooth: 1, with: 3 })).filter((v) => v !== undefined)).toEqual([]);
});

it("has a span only with both ends, and each run once", () => {
  expect(spanOf({ from: 1 })).toBeUndefined();
  expect(spanOf({ from: 1, to: 2 })).toEqual({ from: 1, to: 2 });
  expect(runsOf("a", { with: "b, a,,c" })).toEqual(["a", "b", "c"]);
});
