import { expect, it } from "vitest";
import type { MetricLine } from "@/api/types";
import { equalStep, returnMetricOf, returnsOf } from "./returns";

const line = (run: string, fields: Partial<MetricLine>): MetricLine =>
  ({ run, name: "r", samples: 1, is_exact: false, x: [], last: [], min: [], max: [], ...fields }) as MetricLine;

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

it("takes the train step that every run has reached", () => {
  expect(equalStep([line("a", { x: [80] }), line("b", { x: [30] }), line("c", { samples: 0 })])).toBe(30);
  expect(equalStep([line("a", { x: [80] }), line("b", { samples: 0 })])).toBeNull();
});

it("gives the last, the best and the value at the equal step", () => {
  const lines = [line("a", { last: [120], max: [200], min: [9] }), line("b", { is_exact: true, last: [50] })];
  const until = [line("a", { last: [90] })];
  expect(returnsOf("a", lines, until)).toEqual({ last: 120, best: 200, atEqualStep: 90 });
  expect(returnsOf("b", lines, until)).toEqual({ last: 50, best: 50, atEqualStep: null });
  expect(returnsOf("c", lines, until)).toBeNull();
});
