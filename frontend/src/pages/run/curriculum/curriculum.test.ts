import { expect, test } from "vitest";
import type { CurriculumPart, EvaluationRow, LessonRow } from "@/api/types";
import { lessonPanel, lessonPanels, linedOf, resultText, summaryOf } from "@/pages/run/curriculum/curriculum";

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

test("an evaluation shows its result, or its state and the last error", () => {
  const unfinished = (more: Partial<EvaluationRow>) => resultText(evaluation({ figures: null, attempts: 0, worker: "", ...more }));
  expect(unfinished({ state: "queued" })).toBe("queued");
  expect(unfinished({ state: "leased", worker: "w0" })).toBe("running on w0");
  expect(unfinished({ state: "queued", attempts: 1, reason: "no simulator" })).toBe("queued; the last attempt failed: no simulator");
  expect(unfinished({ state: "failed", attempts: 5, reason: "no simulator" })).toBe("failed after 5 attempts: no simulator");
  expect(unfinished({ state: "lost", attempts: 5, reason: "gone" })).toBe("lost after 5 attempts: gone");
  const half = { estimate: 0.5, low: 0.4, high: 0.6 };
  expect(resultText(evaluation({ pass_at: { "1": half, "4": { ...half, estimate: 0.75 } } }))).toBe(
    "0.5, between 0.4 and 0.6, pass@4 75 %",
  );
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
