import { expect, it } from "vitest";
import type { MetricLine } from "@/api/types";
import { interpolated } from "@/charts/columns";
import { meanAndSpread } from "@/charts/lines";
import { lineOf } from "@/testing/metrics";
import { configRows, defaultMetrics, figuresOf, groupingsOf, groupsOf, returnMetricOf, unionOf } from "./comparing";

const line = (given: Partial<MetricLine>): MetricLine => ({ ...lineOf("a", "loss", [], []), samples: 3, ...given });

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

it("compares by the first return that most runs have", () => {
  const union = [
    { name: "episode_return", runs: ["a"] },
    { name: "eval/episode_return", runs: ["a", "b"] },
    { name: "loss", runs: ["a", "b", "c"] },
    { name: "rolldeck/reward/mean", runs: ["a", "b"] },
  ];
  expect(returnMetricOf(["fleet"], union)).toBe("rolldeck/reward/mean");
  expect(returnMetricOf(["fleet"], union.slice(0, 1))).toBe("episode_return");
  expect(returnMetricOf(["fleet"], [{ name: "loss", runs: ["a"] }])).toBeUndefined();
});

const run = (name: string, changes: object = {}) => ({ name, tags: [], project: null, config: {}, ...changes });

it("offers the settings that differ, and tags and projects if a run has one", () => {
  const plain = [run("a", { config: { seed: 1, lr: 2, env: { id: "x" } } }), run("b", { config: { seed: 2, lr: 2, env: { id: "y" } } })];
  expect(groupingsOf(plain).map(({ value }) => value)).toEqual(["all", "config.seed", "config.env.id"]);
  const tagged = [run("a", { tags: ["t"] }), run("b", { project: "p" })];
  expect(groupingsOf(tagged).map(({ value }) => value)).toEqual(["all", "tag", "project"]);
});

it("offers no setting with values that are lists or sections", () => {
  const runs = [run("a", { config: { lessons: [1] } }), run("b", { config: { lessons: [2] } })];
  expect(groupingsOf(runs).map(({ value }) => value)).toEqual(["all"]);
});

it("groups runs by tag, project and setting, and those without in a group of their own", () => {
  const runs = [run("a", { tags: ["x", "y"], project: "p", config: { k: { lr: 1 } } }), run("b", { tags: ["x"] }), run("c")];
  expect(groupsOf(runs, "all")).toEqual([{ label: "All runs", runs: ["a", "b", "c"] }]);
  expect(groupsOf(runs, "tag")).toEqual([
    { label: "x", runs: ["a", "b"] },
    { label: "y", runs: ["a"] },
    { label: "without a tag", runs: ["c"] },
  ]);
  expect(groupsOf(runs, "project").map(({ label }) => label)).toEqual(["p", "without a project"]);
  expect(groupsOf(runs, "config.k.lr").map(({ label }) => label)).toEqual(["k.lr = 1", "k.lr not set"]);
});

it("interpolates between samples, but not across a gap or beyond the ends", () => {
  expect(interpolated([0, 1, 2, 4, 5], [undefined, 1, undefined, 4, undefined])).toEqual([null, 1, 2, 4, null]);
  expect(interpolated([0, 1, 2, 3], [1, null, undefined, 4])).toEqual([1, null, null, 4]);
  expect(interpolated([], [])).toEqual([]);
});

it("has a mean with the deviation of a sample or the range, and no spread of one value", () => {
  const deviation = Math.SQRT2;
  expect(meanAndSpread([1, 3])).toEqual({ mean: 2, deviation, low: 2 - deviation, high: 2 + deviation });
  expect(meanAndSpread([1, 3], "range")).toEqual({ mean: 2, deviation, low: 1, high: 3 });
  expect(meanAndSpread([5], "range")).toEqual({ mean: 5, deviation: null, low: null, high: null });
  expect(meanAndSpread([], "range")).toBeNull();
});
