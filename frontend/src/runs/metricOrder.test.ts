import { expect, it } from "vitest";
import { leadsOf, returnsFirst, titleOf } from "./metricOrder";

const order = (kinds: Parameters<typeof returnsFirst>[0], names: string[]) => returnsFirst(kinds, names, (name) => name);

it("lists the return of a step run first, then its evaluations", () => {
  expect(order(["fleet"], ["entropy", "eval/episode_return", "kl", "rolldeck/reward/mean", "episode_return"])).toEqual([
    "episode_return",
    "rolldeck/reward/mean",
    "eval/episode_return",
    "entropy",
    "kl",
  ]);
});

it("lists the mean reward of language and outside runs first, then the success of evaluations", () => {
  const names = ["eval/sums/success", "eval/sums/tokens", "loss", "micro_eval/sums/success", "reward_mean", "rolldeck/reward/mean"];
  for (const kind of ["language", "outside"] as const)
    expect(order([kind], names)).toEqual([
      "rolldeck/reward/mean",
      "reward_mean",
      "eval/sums/success",
      "micro_eval/sums/success",
      "eval/sums/tokens",
      "loss",
    ]);
});

it("keeps the order of all other metrics", () => {
  expect(order(["fleet"], ["z", "reward_mean", "a", "eval/episode_length"])).toEqual(["z", "reward_mean", "a", "eval/episode_length"]);
});

it("takes at most four returns and evaluations, in order", () => {
  const lessons = Array.from({ length: 9 }, (_, i) => `eval/lesson-${i}/success`);
  expect(leadsOf(["language"], ["a", ...lessons, "rolldeck/reward/mean"])).toEqual(["rolldeck/reward/mean", ...lessons.slice(0, 3)]);
  expect(leadsOf(["outside"], ["a", "b"])).toEqual([]);
});

it("orders the metrics of runs of several kinds together", () => {
  expect(leadsOf(["fleet", "language"], ["eval/sums/success", "reward_mean", "eval/episode_return", "rolldeck/reward/mean"])).toEqual([
    "rolldeck/reward/mean",
    "reward_mean",
    "eval/sums/success",
    "eval/episode_return",
  ]);
});

it("names built-in returns by kind of run", () => {
  expect([titleOf(["fleet"], "rolldeck/reward/mean"), titleOf(["outside"], "rolldeck/reward/mean")]).toEqual(["Return", "Reward"]);
  expect(titleOf(["fleet", "language"], "rolldeck/reward/mean")).toBe("Return or reward");
  expect([titleOf(["fleet"], "eval/episode_return"), titleOf(["fleet"], "loss")]).toEqual(["Evaluation return", undefined]);
});
