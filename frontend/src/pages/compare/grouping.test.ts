import { expect, it } from "vitest";
import { interpolated } from "@/charts/columns";
import { meanAndSpread } from "@/charts/spread";
import { groupingsOf, groupsOf } from "./grouping";

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
