import { expect, test } from "vitest";
import type { CurriculumPart, EvaluationRow, LessonChange, LessonRow } from "@/api/types";
import {
  barOf,
  intervalText,
  lessonPanel,
  lessonPanels,
  linedOf,
  moveOf,
  resultText,
  summaryOf,
  unfinishedText,
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

const evaluation = (fields: Partial<EvaluationRow>): EvaluationRow => ({
  id: "1",
  lesson: "a",
  round: 1,
  state: "done",
  epoch: 1,
  due_step: 1,
  policy_step: 1,
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

test("summarizes the lessons", () => {
  expect(summaryOf(curriculum)).toBe("3 active, 2 locked · effective number of sampled lessons 2.7");
  expect(summaryOf({ ...curriculum, active: 1, graduated: 4 })).toBe("1 active, 4 graduated, 2 locked");
  expect(summaryOf({ ...curriculum, active: 0, locked: 0, graduated: 5, completed_at: "2026-03-01T12:00:00Z" })).toBe(
    "all 5 lessons graduated",
  );
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

test("an evaluation shows its result, or its state and the last error", () => {
  const row = { state: "queued", attempts: 0, reason: "", worker: "" } as const;
  expect(unfinishedText(row)).toBe("queued");
  expect(unfinishedText({ ...row, state: "leased", worker: "w0" })).toBe("running on w0");
  expect(unfinishedText({ ...row, attempts: 1, reason: "no simulator" })).toBe("queued; the last attempt failed: no simulator");
  expect(unfinishedText({ ...row, state: "failed", attempts: 5, reason: "no simulator" })).toBe("failed after 5 attempts: no simulator");
  expect(unfinishedText({ ...row, state: "lost", attempts: 5, reason: "gone" })).toBe("lost after 5 attempts: gone");
  const half = { estimate: 0.5, low: 0.4, high: 0.6 };
  expect(resultText(evaluation({ pass_at: { "1": half, "4": { ...half, estimate: 0.75 } } }))).toBe(
    "0.5, between 0.4 and 0.6, pass@4 75 %",
  );
  expect(resultText(evaluation({ figures: null, state: "queued" }))).toBe("queued");
});

const row = (name: string, more: Partial<LessonRow>) => ({ name, status: "active", samples: 1, evaluation: null, ...more }) as LessonRow;

test("active lessons have lines before the most sampled others, in the order of the lessons", () => {
  const graduated = (name: string, samples: number) => row(name, { status: "graduated", samples });
  const lessons = [graduated("a", 5), graduated("b", 9), row("c", {}), row("d", { status: "locked", samples: 0 })];
  expect(linedOf(lessons, 2)).toEqual(["b", "c"]);
  expect(linedOf(lessons)).toEqual(["a", "b", "c"]);
  const [share] = lessonPanels(lessons);
  expect(share?.note).toBe("% of all tasks, by version, 3 of 4 lessons");
  expect(share?.source).toMatchObject({ prefix: "", curves: [{ name: "curriculum/share/a" }, {}, { name: "curriculum/share/c" }] });
});

test("a lesson's chart has pass@k if its evaluations have several answers", () => {
  const half = { estimate: 0.5, low: 0.4, high: 0.6 };
  const names = (lesson: LessonRow) => {
    const { source } = lessonPanel(lesson);
    return source.kind === "preset" ? source.curves.map(({ name }) => name) : [];
  };
  expect(names(row("a", {}))).toEqual(["eval/a/success", "micro_eval/a/success", "rollout/a/success"]);
  const several = row("a", { evaluation: evaluation({ pass_at: { "1": half, "4": half } }) });
  expect(names(several)).toContain("eval/a/pass_at/4");
});
