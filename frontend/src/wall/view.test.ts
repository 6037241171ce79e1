import { expect, it } from "vitest";
import { recalled } from "./useView";
import { pickedOf, replacing, runsOf, savedOf, stretchAt, viewSearch } from "./view";

const nonEmpty = (search: object) => Object.fromEntries(Object.entries(search).filter(([, value]) => value !== undefined));
const viewOf = (search: Record<string, unknown>) => nonEmpty(viewSearch(search));

it("keeps valid values only", () => {
  const view = { q: "loss", x: "time", from: 1, to: 2, smooth: 0.9, runs: "b", charts: ["kl", "/a/", "= a / b"], hide: "b" };
  expect(viewOf(view)).toEqual(view);
  expect(viewOf({ q: 7, runs: 3, by: true })).toEqual({ q: "7", runs: "3" });
  expect(viewOf({ x: "moon", from: 2, to: 1, smooth: 1, charts: "kl", last: 7, view: -1, by: "colour" })).toEqual({});
  expect(viewOf({ charts: ["a", "", 3, "a"], by: "config.seed", spread: "range", view: 4 })).toEqual({
    charts: ["a"],
    by: "config.seed",
    spread: "range",
    view: 4,
  });
  expect(viewOf({ smooth: Number.NaN, from: Number.POSITIVE_INFINITY, to: 3, prompt: "x", config: "some", hide: ["a"] })).toEqual({});
});

it("opens links of earlier versions", () => {
  expect(viewOf({ with: "b,c", layout: 7, pin: "kl,loss", panels: ["^layer/", "= a / b"], log: "loss" })).toEqual({
    runs: "b,c",
    view: 7,
    charts: ["kl", "loss", "/^layer//", "= a / b"],
  });
  expect(viewOf({ under: "train/", q: "loss", marks: "none" })).toEqual({ q: "train/ loss" });
  expect(viewOf({ runs: "a,b", m: "loss" })).toEqual({ runs: "a,b", charts: ["loss"] });
  expect(viewOf({ pin: "kl", charts: ["loss"] })).toEqual({ charts: ["loss"] });
});

it("keeps times before the start of a run, and no other places below 0", () => {
  const early = { x: "elapsed", from: -9, to: 4, pick: "loss", at: -2, since: -3 };
  expect(viewOf(early)).toEqual(early);
  expect(viewOf({ from: -9, to: 4, pick: "loss", at: -2 })).toEqual({});
});

it("has a moving range only without a fixed one, over time", () => {
  expect(viewOf({ last: 900 })).toEqual({ last: 900 });
  expect(viewOf({ last: 900, from: 1, to: 2 })).toEqual({ from: 1, to: 2 });
  expect(viewOf({ last: 900, x: "step" })).toEqual({ x: "step" });
});

it("requires metric and position of a selected point", () => {
  expect(pickedOf(viewSearch({ pick: "loss", at: 20, since: 5 }))).toEqual({ metric: "loss", from: 5, to: 20 });
  expect(pickedOf(viewSearch({ pick: "loss", at: 20 }))).toEqual({ metric: "loss", from: 20, to: 20 });
  expect(pickedOf(viewSearch({ pick: "loss" }))).toBeUndefined();
  expect(viewSearch({ pick: "a", at: 3, since: 9 }).since).toBeUndefined();
});

it("takes each run once, up to twenty", () => {
  expect(runsOf({ runs: [...Array(30).keys()].join(",") })).toHaveLength(20);
  expect(runsOf({ runs: "b, a,,c" }, "a")).toEqual(["a", "b", "c"]);
});

it("finds the samples of a point", () => {
  const line = { x: [15, 31, 47], x_first: [0, 16, 32], is_exact: false };
  expect(stretchAt(line, 31)).toEqual({ from: 16, to: 31 });
  expect(stretchAt({ ...line, x_first: [], is_exact: true }, 31)).toEqual({ from: 31, to: 31 });
  expect(stretchAt(line, 20)).toEqual({ from: 16, to: 31 });
  expect(stretchAt(line, 99)).toEqual({ from: 32, to: 47 });
  expect(stretchAt({ x: [], x_first: [], is_exact: true }, 3)).toBeNull();
  expect(stretchAt(undefined, 3)).toBeNull();
});

it("saves what an address shows, and replaces all of it", () => {
  const saved = { q: "loss", x: "time" as const, charts: ["kl"], looks: { kl: "log" } };
  expect(savedOf({ ...saved, view: 3, pick: "kl", at: 2, focus: "chart:kl", by: undefined })).toEqual(saved);
  expect(nonEmpty(replacing({ hide: "b", smooth: 0.5, focus: "chart:a" }, saved))).toEqual(saved);
});

it("recalls a remembered view in an address without one", () => {
  const remembered = { charts: ["kl", "/a/"], x: "time" as const };
  expect(recalled({ runs: "a,b" }, remembered)).toEqual(remembered);
  expect(recalled({ q: "kl" }, remembered)).toBeNull();
  expect(recalled({}, {})).toBeNull();
  expect(recalled({}, undefined)).toBeNull();
});
