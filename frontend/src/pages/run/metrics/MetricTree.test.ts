import { expect, it } from "vitest";
import { partsOf, rowsOf, treeOf, withWords } from "@/pages/run/metrics/MetricTree";

const NAMES = ["grad.norm", "kl", "layer/1/norm", "layer/10/norm", "layer/2/bias", "layer/2/norm", "train/loss"];

it("splits names at slashes and dots", () => {
  expect(partsOf("layer/2.norm")).toEqual(["layer/", "2.", "norm"]);
  expect([partsOf("kl"), partsOf("a/"), partsOf("/a")]).toEqual([["kl"], ["a/"], ["/", "a"]]);
});

it("counts the names of each branch", () => {
  const rows = rowsOf(treeOf(NAMES), () => true);
  expect(
    rows
      .filter(({ isBranch }) => !isBranch)
      .map(({ path }) => path)
      .sort(),
  ).toEqual([...NAMES].sort());
  expect(rows.filter(({ depth }) => depth === 0).map(({ label, count }) => [label, count])).toEqual([
    ["grad.", 1],
    ["kl", 1],
    ["layer/", 4],
    ["train/", 1],
  ]);
  expect(treeOf(NAMES).count).toBe(NAMES.length);
  expect(rows.filter(({ depth, isBranch }) => depth === 1 && isBranch).map(({ label }) => label)).toEqual(["1/", "2/", "10/"]);
});

it("shows children of open branches only", () => {
  const rows = rowsOf(treeOf(NAMES), (path) => path === "layer/");
  expect(rows.map(({ path }) => path)).toEqual(["grad.", "kl", "layer/", "layer/1/", "layer/2/", "layer/10/", "train/"]);
});

it("merges single-child branches", () => {
  expect(rowsOf(treeOf(["a/b/c", "a/b/d"]), () => false).map(({ label, count }) => [label, count])).toEqual([["a/b/", 2]]);
});

it("finds names by words", () => {
  expect(withWords(NAMES, "NORM layer")).toEqual(["layer/1/norm", "layer/10/norm", "layer/2/norm"]);
});
