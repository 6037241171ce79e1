import { expect, it } from "vitest";
import { metricsSearch, pickedOf, pinnedFirst, runsOf, stretchAt } from "./search";

it("keeps valid values only", () => {
  expect(metricsSearch({ q: 7, x: "time", from: 1, to: 2, smooth: 0.9, with: "b" })).toEqual({
    q: "7",
    x: "time",
    from: 1,
    to: 2,
    smooth: 0.9,
    with: "b",
  });
  expect(Object.values(metricsSearch({ x: "moon", from: 2, to: 1, smooth: 1, with: 3 })).filter((v) => v !== undefined)).toEqual([]);
});

it("keeps times before the run's start", () => {
  expect(metricsSearch({ x: "elapsed", from: -9, to: 4, pick: "loss", at: -2, since: -3 })).toMatchObject({
    from: -9,
    to: 4,
    at: -2,
    since: -3,
  });
});

it("removes duplicate runs", () => {
  expect(runsOf("a", { with: "b, a,,c" })).toEqual(["a", "b", "c"]);
});

it("requires metric and position of a selected point", () => {
  expect(pickedOf(metricsSearch({ pick: "train/loss", at: 20, since: 5 }))).toEqual({ metric: "train/loss", from: 5, to: 20 });
  expect(pickedOf(metricsSearch({ pick: "train/loss", at: 20 }))).toEqual({ metric: "train/loss", from: 20, to: 20 });
  expect(pickedOf(metricsSearch({ pick: "train/loss" }))).toBeUndefined();
  expect(metricsSearch({ pick: "a", at: 3, since: 9 }).since).toBeUndefined();
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

it("lists pinned metrics first, without duplicates", () => {
  const keys = ["entropy", "kl", "loss", "kl"].map((name) => ({ name }));
  expect(pinnedFirst(["loss", "gone"], keys).map(({ name }) => name)).toEqual(["loss", "entropy", "kl"]);
  expect(pinnedFirst([], keys).map(({ name }) => name)).toEqual(["entropy", "kl", "loss"]);
  expect(metricsSearch({ pin: "loss,kl" }).pin).toBe("loss,kl");
  expect(metricsSearch({ pin: 7 }).pin).toBeUndefined();
});
