/** Compare success rates with another run's, and list the k of pass@k. Pure. */

import type { EvaluationRow, RunDetail } from "@/api/types";
import type { Interval } from "@/pages/run/curriculum/curriculum";

/** The values of k that all answers allow, ascending; pass@1 is the success rate. */
export function ksOf(rows: EvaluationRow[]): number[] {
  const done = rows.filter(({ figures }) => figures !== null).map(({ pass_at }) => Object.keys(pass_at).map(Number));
  const [first = [1], ...others] = done;
  return first.filter((k) => others.every((ks) => ks.includes(k))).sort((a, b) => a - b);
}

/** The rate of one evaluation: success for k = 1, else pass@k; null if not finished. */
export const rateOf = (row: EvaluationRow, k: number): Interval | null =>
  k === 1 ? (row.figures?.success ?? null) : (row.pass_at[String(k)] ?? null);

/**
 * The difference of two independent rates, with approximate 90 % bounds (5 % on each side).
 *
 * Source: R. G. Newcombe, Statistics in Medicine 17 (1998), 873–890, method 10, from the score intervals of both.
 */
export function differenceOf(now: Interval, base: Interval): Interval {
  const estimate = now.estimate - base.estimate;
  const below = Math.hypot(now.estimate - now.low, base.high - base.estimate);
  const above = Math.hypot(now.high - now.estimate, base.estimate - base.low);
  return { estimate, low: Math.max(-1, estimate - below), high: Math.min(1, estimate + above) };
}

export type Change = "better" | "worse" | "alike";

/** Whether a difference is significant, and its sign. */
export const changeOf = ({ low, high }: Interval): Change => (low > 0 ? "better" : high < 0 ? "worse" : "alike");

/** The baseline's evaluation to compare a version with: the last one up to that step, in its newest epoch. */
export function baselineOf(rows: EvaluationRow[], lesson: string, step: number): EvaluationRow | null {
  const done = rows.filter((row) => row.lesson === lesson && row.figures !== null);
  const epoch = Math.max(...done.map((row) => row.epoch));
  const before = done.filter((row) => row.epoch === epoch && row.policy_step <= step);
  return before.reduce<EvaluationRow | null>(
    (newest, row) =>
      newest === null || row.policy_step > newest.policy_step || (row.policy_step === newest.policy_step && row.round > newest.round)
        ? row
        : newest,
    null,
  );
}

const SIGNS = { better: "▲", worse: "▼", alike: "≈" } as const;
const points = (part: number): string => `${part > 0 ? "+" : part < 0 ? "−" : "±"}${Math.abs(100 * part).toFixed(0)}`;

/** A difference in percentage points: ▲ +12 (+3 to +20). */
export function differenceText(difference: Interval): string {
  const { estimate, low, high } = difference;
  return `${SIGNS[changeOf(difference)]} ${points(estimate)} (${points(low)} to ${points(high)})`;
}

type Config = RunDetail["config"];
type Asked = { spec?: unknown; kwargs?: unknown };

function lessonsIn(config: Config | undefined): Record<string, Asked> {
  const language = config?.language as { lessons?: Record<string, Asked> } | null | undefined;
  return language?.lessons ?? {};
}

/** Lessons of the same name with different problems, which cannot be compared. */
export function otherProblems(run: Config, base: Config | undefined): string[] {
  const [mine, theirs] = [lessonsIn(run), lessonsIn(base)];
  const asked = (lesson: Asked | undefined) => JSON.stringify([lesson?.spec, lesson?.kwargs ?? {}]);
  return Object.keys(mine).filter((name) => name in theirs && asked(mine[name]) !== asked(theirs[name]));
}
