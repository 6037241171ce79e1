import { expect, test } from "vitest";
import type { EvaluationRow } from "@/api/types";
import { baselineOf, changeOf, differenceOf, differenceText, ksOf, otherProblems, rateOf } from "@/pages/run/evaluations/comparing";

const around = (estimate: number, reach = 0.1) => ({ estimate, low: estimate - reach, high: estimate + reach });
const row = (lesson: string, step: number, ks: number[], fields: object = {}) =>
  ({
    lesson,
    epoch: 1,
    round: step,
    policy_step: step,
    figures: { success: around(0.5) },
    pass_at: Object.fromEntries(ks.map((k) => [k, around(0.5 + 0.1 * k, 0.05)])),
    ...fields,
  }) as unknown as EvaluationRow;

test("offers only k that all evaluations allow", () => {
  expect(ksOf([row("a", 0, [1, 2, 4, 8]), row("b", 0, [1, 2, 4])])).toEqual([1, 2, 4]);
  expect(ksOf([])).toEqual([1]);
  expect(ksOf([row("a", 0, [1]), row("b", 0, [], { figures: null })])).toEqual([1]);
});

test("pass@1 is the success rate; others have their own bounds", () => {
  expect(rateOf(row("a", 0, [1, 2]), 1)).toEqual(around(0.5));
  expect(rateOf(row("a", 0, [1, 2]), 2)?.estimate).toBeCloseTo(0.7);
  expect(rateOf(row("a", 0, [1]), 4)).toBeNull();
});

test("differences match the published method", () => {
  // Newcombe 1998, table II, case a: 56 of 70 against 48 of 80, 95 % two-sided by score intervals.
  const found = differenceOf({ estimate: 0.8, low: 0.6917, high: 0.8769 }, { estimate: 0.6, low: 0.4904, high: 0.7004 });
  expect(found.estimate).toBeCloseTo(0.2);
  expect(found.low).toBeCloseTo(0.0524, 3);
  expect(found.high).toBeCloseTo(0.3339, 3);
});

test("insignificant differences are neither better nor worse", () => {
  expect([around(0.2), around(-0.2), around(0.05)].map(changeOf)).toEqual(["better", "worse", "alike"]);
  expect([around(0.2), around(-0.2), around(0)].map(differenceText)).toEqual([
    "▲ +20 (+10 to +30)",
    "▼ −20 (−30 to −10)",
    "≈ ±0 (−10 to +10)",
  ]);
});

test("versions are compared with the baseline at or before their step", () => {
  const rows = [row("a", 0, [1]), row("a", 10, [1]), row("a", 20, [1]), row("b", 5, [1]), row("a", 15, [1], { figures: null })];
  expect(baselineOf(rows, "a", 15)?.policy_step).toBe(10);
  expect(baselineOf(rows, "a", 99)?.policy_step).toBe(20);
  expect(baselineOf(rows, "b", 4)).toBeNull();
  expect(baselineOf(rows, "c", 4)).toBeNull();
});

test("lessons with different problems are not compared", () => {
  const config = (length: number) =>
    ({ language: { lessons: { a: { spec: "task:reverse", kwargs: { length } }, b: { spec: "task:sort" } } } }) as never;
  expect(otherProblems(config(2), config(2))).toEqual([]);
  expect(otherProblems(config(2), config(3))).toEqual(["a"]);
  expect(otherProblems({}, config(3))).toEqual([]);
});
