import { expect, it } from "vitest";
import { choiceOf, isChosen, isDefault, recalled, searchOfChoice } from "./choice";
import { metricsSearch } from "./search";

const SEARCH = metricsSearch({ pin: "loss,kl", log: "kl", panels: ["^grad/"], x: "time", smooth: 0.9 });

it("round-trips pins, log axes, panels, axis and smoothing", () => {
  expect(metricsSearch(searchOfChoice(choiceOf(SEARCH)) as Record<string, unknown>)).toEqual(SEARCH);
  expect(choiceOf(metricsSearch({}))).toEqual({ metrics: [], logarithmic: [], panels: [], x: "step", smooth: 0 });
});

it("recalls a choice in an address without parameters only", () => {
  const choice = choiceOf(SEARCH);
  expect(recalled(metricsSearch({}), choice)).toEqual(searchOfChoice(choice));
  expect(recalled(metricsSearch({ pin: "entropy" }), choice)).toBeNull();
  expect(recalled(metricsSearch({ q: "loss" }), choice)).toBeNull();
  expect(recalled(metricsSearch({ layout: 3 }), choice)).toBeNull();
  expect(recalled(metricsSearch({}), undefined)).toBeNull();
  expect(recalled(metricsSearch({}), choiceOf({}))).toBeNull();
});

it("remembers changes of metrics and axes, not of filters and ranges", () => {
  expect([isChosen({ pin: undefined }), isChosen({ x: "time", from: undefined })]).toEqual([true, true]);
  expect([isChosen({ q: "loss" }), isChosen({ from: 1, to: 2 }), isChosen({ with: "b" })]).toEqual([false, false, false]);
});

it("knows the default view", () => {
  expect([isDefault({}), isDefault({ q: "loss" }), isDefault({ pin: "loss" })]).toEqual([true, true, false]);
});
