import { expect, it } from "vitest";
import { isSameView, searchOf, viewOf } from "./layoutSearch";
import { metricsSearch } from "./search";

const ADDRESS = { q: "loss", under: "train/", x: "time" as const, smooth: 0.9, pin: "kl,loss", log: "kl", panels: ["^grad/"] };

it("round-trips URL parameters through a layout", () => {
  const view = viewOf({ ...ADDRESS, from: 1, to: 2, with: "other" });
  expect(view).toEqual({
    search: "loss",
    under: "train/",
    x: "time",
    smooth: 0.9,
    pinned: ["kl", "loss"],
    logarithmic: ["kl"],
    panels: ["^grad/"],
  });
  expect(searchOf(view)).toEqual(ADDRESS);
  expect(isSameView(ADDRESS, view)).toBe(true);
  expect(isSameView({ ...ADDRESS, pin: "kl" }, view)).toBe(false);
});

it("accepts a partial layout", () => {
  expect(Object.values(searchOf({})).filter((value) => value !== undefined)).toEqual([]);
  expect(isSameView({}, {})).toBe(true);
});

it("keeps panels, branch, layout and marks, and drops invalid values", () => {
  expect(metricsSearch({ panels: ["a", "a", 7, ""], under: "x/", layout: 4, marks: "none" })).toMatchObject({
    panels: ["a"],
    under: "x/",
    layout: 4,
    marks: "none",
  });
  expect(metricsSearch({ panels: "a", under: 3, layout: -1, marks: "loud" })).toMatchObject({
    panels: undefined,
    under: undefined,
    layout: undefined,
    marks: undefined,
  });
});
