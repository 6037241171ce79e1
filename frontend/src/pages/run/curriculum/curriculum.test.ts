import { expect, test } from "vitest";
import type { CurriculumPart, EvaluationRow, LessonChange, MicroEvaluationRow } from "@/api/types";
import {
  barOf,
  evaluationColumns,
  intervalText,
  moveOf,
  passText,
  summaryOf,
  unfinishedText,
  withMicro,
} from "@/pages/run/curriculum/curriculum";

const figures = (estimate: number): EvaluationRow["figures"] => ({
  problems: 32,
  generations: 1,
  successes: Math.floor(32 * estimate),
  success: { estimate, low: estimate - 0.1, high: estimate + 0.1 },
  pass_at: { "1": estimate },
  reward: { estimate: 2 * estimate, low: 0, high: 1 },
  tokens: 10,
  truncated: 0,
  seconds: 1,
});

const evaluation = (round: number, fields: Partial<EvaluationRow>): EvaluationRow => ({
  id: String(round),
  lesson: "a",
  round,
  state: "done",
  epoch: 1,
  due_step: round,
  policy_step: round,
  created_at: "2026-03-01T12:00:00Z",
  finished_at: null,
  worker: "w0",
  attempts: 1,
  reason: "",
  figures: figures(0.5),
  pass_at: {},
  samples: [],
  ...fields,
});

const curriculum: CurriculumPart = {
  steered: 0,
  stopped: 0,
  awaited: [],
  revision: 1,
  strategy: "rolldeck",
  locked: 2,
  active: 3,
  graduated: 0,
  tasks: 9,
  round: 1,
  evaluations_open: 0,
  completed_at: null,
  entropy: 1,
  effective_lessons: 2.72,
  mean_success: 0.5,
};

test("intervals are clamped to the bar", () => {
  expect(barOf({ estimate: 0.5, low: 0.25, high: 0.75 })).toEqual({ left: "25.0%", width: "50.0%", at: "50.0%" });
  expect(barOf({ estimate: 1, low: 0.9, high: 1.2 }).at).toBe("100.0%");
});

test("intervals are formatted", () => {
  expect(intervalText({ estimate: 0.91, low: 0.857, high: 0.95 })).toBe("0.91, between 0.857 and 0.95");
});

test("charts show finished evaluations by version", () => {
  const rows = [
    evaluation(2, { policy_step: 20, figures: figures(0.75) }),
    evaluation(3, { state: "leased", figures: null }),
    evaluation(1, { policy_step: 0 }),
  ];
  const { x, isRound, success, reward } = evaluationColumns(rows);
  expect([x, isRound, success, reward]).toEqual([[0, 20], false, [0.5, 0.75], [1, 1.5]]);
});

test("rounds are the axis after a version restart", () => {
  const rows = [evaluation(2, { epoch: 2, policy_step: 7 }), evaluation(1, { policy_step: 40 })];
  expect(evaluationColumns(rows)).toMatchObject({ x: [1, 2], isRound: true });
});

test("two rounds at one version merge into one point", () => {
  expect(evaluationColumns([evaluation(2, { policy_step: 5 }), evaluation(1, { policy_step: 5 })]).x).toEqual([5]);
});

test("pass@k is sorted by k", () => {
  expect(passText({ "16": 0.9, "2": 0.5, "1": 0.3 })).toBe("pass@1 30 %, pass@2 50 %, pass@16 90 %");
});

test("summarizes the lessons", () => {
  expect(summaryOf(curriculum)).toBe("3 active, 2 locked · effective number of sampled lessons 2.7");
  expect(summaryOf({ ...curriculum, active: 1, graduated: 4 })).toBe("1 active, 4 graduated, 2 locked");
  expect(summaryOf({ ...curriculum, graduated: 5, completed_at: "2026-03-01T12:00:00Z" })).toBe("all 5 lessons graduated");
});

test("summarizes the lessons of the page, not those of another message", () => {
  const lessons = (["graduated", "graduated", "active", "locked"] as const).map((status) => ({ status }));
  expect(summaryOf({ ...curriculum, completed_at: "2026-03-01T12:00:00Z" }, lessons)).toBe("1 active, 2 graduated, 1 locked");
});

test("labels transitions, unknown ones unchanged", () => {
  const move = (source: string, target: string) => moveOf({ source, target } as LessonChange);
  expect([move("locked", "active"), move("active", "graduated"), move("graduated", "active")]).toEqual([
    "unlocked",
    "graduated",
    "regressed",
  ]);
  expect(move("locked", "graduated")).toBe("locked → graduated");
});

test("an evaluation without a result shows its state and the last error", () => {
  const row = { state: "queued", attempts: 0, reason: "" } as const;
  expect(unfinishedText(row)).toBe("No result yet.");
  expect(unfinishedText({ ...row, attempts: 1, reason: "no simulator" })).toBe("No result yet. The last attempt failed: no simulator");
  expect(unfinishedText({ state: "failed", attempts: 5, reason: "no simulator" })).toBe("Failed after 5 attempts: no simulator");
  expect(unfinishedText({ state: "lost", attempts: 5, reason: "gone" })).toBe("Lost after 5 attempts: gone");
});

test("failed micro-evaluations are not in the chart", () => {
  const micro = (policy_step: number, estimate: number | null): MicroEvaluationRow => ({
    id: policy_step,
    at: "2026-03-01T12:00:00Z",
    epoch: 1,
    policy_step,
    worker: "w0",
    samples: estimate === null ? 0 : 16,
    successes: 0,
    success: estimate === null ? null : { estimate, low: 0, high: 1 },
    reward_mean: estimate,
    error: estimate === null ? "no simulator" : "",
    answers: [],
  });
  const columns = withMicro(evaluationColumns([evaluation(2, {})]), [micro(3, null), micro(3, 0.25), micro(1, null)]);
  expect(columns.x).toEqual([2, 3]);
  expect(columns.micro).toEqual([undefined, 0.25]);
});
