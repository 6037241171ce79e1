import { expect, it } from "vitest";
import type { Comparison } from "@/pages/compare/api";
import { searchOfComparison, viewOfSearch } from "./reports";
import { compareSearch } from "./search";

const saved = (view: Comparison["view"]): Comparison => ({ id: 7, name: "a", remarks: "", view, created_at: "", created_by: "ada" });

it("round-trips all URL parameters", () => {
  const search = compareSearch({
    runs: "a,b",
    m: "loss,kl",
    x: "time",
    from: 5,
    to: 9,
    smooth: 0.6,
    log: "kl",
    hide: "b",
    config: "all",
    prompt: "0".repeat(32),
  });
  const again = searchOfComparison(saved(viewOfSearch(search, ["loss", "kl"])));
  expect(again).toEqual({ ...search, report: 7 });
  expect(compareSearch(again)).toEqual(again);
});

it("saves shown default metrics, up to the limit", () => {
  const view = viewOfSearch(compareSearch({ runs: "a", log: "gone", hide: "elsewhere" }), ["loss"]);
  expect(view).toMatchObject({
    runs: ["a"],
    metrics: ["loss"],
    x: "step",
    begin: null,
    end: null,
    smooth: 0,
    logarithmic: [],
    hidden: [],
    config: "differing",
    prompt: null,
  });
  expect(
    viewOfSearch(
      compareSearch({ runs: "a" }),
      Array.from({ length: 40 }, (_, i) => `m${i}`),
    ).metrics,
  ).toHaveLength(24);
});

it("accepts only a number as report", () => {
  expect(compareSearch({ report: 7 }).report).toBe(7);
  expect([compareSearch({ report: -1 }).report, compareSearch({ report: "x" }).report, compareSearch({ report: 1.5 }).report]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});
