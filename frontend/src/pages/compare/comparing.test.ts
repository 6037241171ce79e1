import { expect, it } from "vitest";
import type { MetricLine } from "@/api/types";
import { configRows, defaultMetrics, figuresOf, stalenessOf, unionOf } from "./comparing";

const line = (given: Partial<MetricLine>): MetricLine => ({
  run: "a",
  name: "loss",
  samples: 3,
  nans: 0,
  infinities: 0,
  bucket: 1,
  is_exact: true,
  x: [],
  last: [],
  x_first: [],
  min: [],
  max: [],
  mean: [],
  count: [],
  gaps: [],
  ...given,
});

it("lists metrics of most runs first, built-in ones last", () => {
  const found = [
    { run: "a", names: ["kl", "loss", "rolldeck/queue"] },
    { run: "b", names: ["loss", "rolldeck/queue"] },
  ];
  expect(unionOf(found)).toEqual([
    { name: "loss", runs: ["a", "b"] },
    { name: "kl", runs: ["a"] },
    { name: "rolldeck/queue", runs: ["a", "b"] },
  ]);
});

it("aggregates a line including spikes, for any bucket width", () => {
  expect(figuresOf(line({ last: [1, 5, null] }))).toEqual({ last: 5, least: 1, greatest: 5 });
  const wide = line({ is_exact: false, last: [1, 2], min: [-4, null], max: [90, null] });
  expect(figuresOf(wide)).toEqual({ last: 2, least: -4, greatest: 90 });
  expect(figuresOf(line({ samples: 0 }))).toBeNull();
  expect(figuresOf(undefined)).toBeNull();
});

it("weights staleness by items", () => {
  expect(stalenessOf({ "0": 3, "4": 1 })).toEqual({ mean: 1, most: 4 });
  expect(stalenessOf({})).toBeNull();
});

it("finds configuration differences and missing keys", () => {
  const rows = configRows([
    { fleet: { workers: 2, gpu: {} }, seed: 0, sizes: [1, 2] },
    { fleet: { workers: 4, gpu: {} }, sizes: [1, 2] },
    {},
  ]);
  expect(rows.map(({ path, isSame }) => [path, isSame])).toEqual([
    ["fleet.workers", false],
    ["fleet.gpu", false],
    ["seed", false],
    ["sizes", false],
  ]);
  expect(rows[0]?.values).toEqual([2, 4, undefined]);
  expect(configRows([{ a: { b: null } }, { a: { b: null } }])).toEqual([{ path: "a.b", values: [null, null], isSame: true }]);
});

it("shows returns first by default, then the metrics of most runs", () => {
  const union = ["entropy", "kl", "loss", "eval/episode_return", "rolldeck/reward/mean"].map((name) => ({ name, runs: ["a"] }));
  expect(defaultMetrics(["fleet"], union, 4)).toEqual(["rolldeck/reward/mean", "eval/episode_return", "entropy", "kl"]);
  expect(defaultMetrics(["outside"], union.slice(0, 2), 4)).toEqual(["entropy", "kl"]);
});
