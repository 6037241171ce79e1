import { expect, it } from "vitest";
import { choiceOf, isChosen, isDefault, kindOf, recalled } from "./choice";
import { compareSearch } from "./search";

const SEARCH = { m: "loss,kl", log: "kl", x: "time" as const, smooth: 0.9 };
const RUNS = { runs: "a,b", hide: "b" };

it("recalls the metrics that the runs have", () => {
  const choice = choiceOf(compareSearch({ ...SEARCH, ...RUNS }));
  expect(recalled(compareSearch(RUNS), choice, new Set(["loss", "kl"]))).toEqual(SEARCH);
  expect(recalled(compareSearch(RUNS), choice, new Set(["loss"]))).toEqual({ ...SEARCH, m: "loss", log: undefined });
  expect(recalled(compareSearch(RUNS), choice, null)).toEqual(SEARCH);
  expect(recalled(compareSearch(RUNS), { ...choice, x: "step", smooth: 0 }, new Set())).toBeNull();
});

it("recalls nothing in an address with parameters of its own", () => {
  const choice = choiceOf(SEARCH);
  for (const own of [{ m: "entropy" }, { x: "time" }, { from: 1, to: 2 }, { config: "all" }])
    expect(recalled(compareSearch({ ...RUNS, ...own }), choice, null)).toBeNull();
  expect(recalled(compareSearch(RUNS), undefined, null)).toBeNull();
  expect(recalled(compareSearch(RUNS), choiceOf({}), null)).toBeNull();
});

it("stores a choice by kind of the runs", () => {
  expect([kindOf(["fleet"]), kindOf(["fleet", "outside"]), kindOf([])]).toEqual(["fleet", "mixed", "mixed"]);
});

it("remembers changes of metrics and axes only", () => {
  expect([isChosen({ m: undefined }), isChosen({ x: "time" }), isChosen({ hide: "a" }), isChosen({ runs: "a" })]).toEqual([
    true,
    true,
    false,
    false,
  ]);
  expect([isDefault({ runs: "a" }), isDefault({ m: "a" })]).toEqual([true, false]);
});
