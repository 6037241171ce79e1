import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { expect, it } from "vitest";
import type { CurriculumPart, EvaluationRow, LessonPass, LessonProblem, LessonRow } from "@/api/types";
import { lineOf } from "@/testing/metrics";
import { dialog, here, load, press, serverFor } from "@/testing/page";
import { addRun, runOf } from "@/testing/runs";
import { showAll } from "@/testing/viewport";

const AT = "2026-03-01T12:00:00Z";
const half = { estimate: 0.5, low: 0.4, high: 0.6 };
const evaluation: EvaluationRow = {
  id: "e-1",
  lesson: "sums",
  round: 1,
  state: "done",
  epoch: 1,
  due_step: 0,
  policy_step: 0,
  created_at: AT,
  finished_at: AT,
  worker: "w0",
  attempts: 1,
  reason: "",
  pass_at: { "1": half },
  samples: [],
  figures: {
    problems: 64,
    generations: 1,
    successes: 32,
    success: half,
    pass_at: { "1": 0.5 },
    reward: half,
    tokens: 1,
    truncated: 0,
    seconds: 1,
  },
};
const answered = { ...evaluation, samples: [{ prompt: "1+1=", response: "2", reward: 1, is_correct: true }] };
const lesson = (name: string, changes: Partial<LessonRow>): LessonRow => ({
  name,
  spec: "task:addition",
  requires: [],
  stop_success: 0.9,
  status: "active",
  reason: "requires nothing",
  changed_at: AT,
  has_regressed: false,
  probability: 0.5,
  hold: "",
  weight_factor: 1,
  steered_by: "",
  steered_reason: "",
  steered_at: null,
  unlock_rule: "",
  success: 0.25,
  examples: 8,
  pass_size: 64,
  samples: 32,
  zero_variance_share: 0,
  truncated_share: 0,
  duplicate_share: 0,
  short_groups: "drop",
  failed: 0,
  refilled: 0,
  lost_siblings: 0,
  tokens_mean: 4,
  errors: 0,
  last_error: "",
  evaluation: null,
  ...changes,
});
const pass: LessonPass = {
  number: 2,
  size: 64,
  unassigned: 10,
  leased: 6,
  returned: 1,
  answered: 4,
  trained: 40,
  skipped: { zero_variance: 2, worker_lost: 1 },
};
const skipped: LessonProblem = {
  number: 131,
  pass_number: 2,
  state: "skipped",
  attempts: 3,
  reason: "worker_lost",
  worker: "w0@1",
  leased_at: AT,
  group: null,
};
const summary = {
  strategy: "rolldeck",
  locked: 0,
  active: 2,
  graduated: 0,
  tasks: 9,
  round: 1,
  evaluations_open: 1,
  completed_at: null,
  entropy: 1,
  effective_lessons: 2,
  mean_success: 0.5,
  steered: 0,
  stopped: 0,
  awaited: [],
  revision: 1,
} satisfies CurriculumPart;

/** A language run with two lessons, of which *sums* has two evaluations. */
function serverOfLessons() {
  const server = serverFor();
  addRun(server, runOf("words", { kind: "language", policy_step: 3 }));
  server.tell("run:words", { curriculum: summary });
  const lines = [
    ...["sums", "words"].map((name) => lineOf("words", `curriculum/share/${name}`, [0, 3], [0.5, 0.25])),
    lineOf("words", "eval/sums/success", [0, 3], [0.5, 0.75]),
    lineOf("words", "eval/sums/success/low", [0, 3], [0.4, 0.6]),
    lineOf("words", "eval/sums/success/high", [0, 3], [0.6, 0.8]),
  ];
  const queued = { ...evaluation, id: "e-2", state: "queued" as const, figures: null, due_step: 3, finished_at: null };
  return server
    .on("GET", "/api/v1/runs/{run}/lessons", {
      results: [lesson("sums", { evaluation }), lesson("words", {})],
      next: null,
      summary,
    } as never)
    .on("GET", "/api/v1/metrics/lines", ({ query }) => ({
      x: "step" as const,
      lines: lines.filter(({ name }) => query.get("names")?.split(",").includes(name)),
    }))
    .on("GET", "/api/v1/runs/{run}/annotations", { results: [], next: null, events: [] } as never)
    .on("GET", "/api/v1/runs/{run}/evaluations", { results: [queued, answered], next: null })
    .on("GET", "/api/v1/runs/{run}/evaluations/{evaluation}", answered)
    .on("GET", "/api/v1/runs/{run}/lessons/history", { results: [], next: null })
    .on("GET", "/api/v1/runs/{run}/lessons/{lesson}/passes", { results: [pass], next: null })
    .on("GET", "/api/v1/runs/{run}/lessons/{lesson}/problems", { results: [skipped], next: null });
}

const chart = (panel: string) => document.querySelector(`[data-panel="${panel}"] [data-points]`);

it("charts share and success of all lessons from the series of the run", async () => {
  showAll();
  serverOfLessons();
  await load("/runs/words/curriculum");
  await waitFor(() => expect(chart("share")).toHaveAttribute("aria-label", expect.stringContaining("2 points; newest sums 25, words 25")));
  expect(chart("evaluation")).toHaveAttribute("aria-label", expect.stringContaining("newest sums 75"));
  const table = screen.getByRole("group", { name: "Lessons, in order of prerequisites" });
  expect(within(table).getAllByRole("row")[1]).toHaveTextContent(/^sums.*50 %25 %32.*50 %.*at version 0/);
  expect(screen.getByText(/1 evaluation pending/)).toBeVisible();
});

it("shows what became of the problems of each pass, and which were skipped", async () => {
  showAll();
  serverOfLessons();
  await load("/runs/words/curriculum?lesson=sums");
  const drawer = await dialog("Lesson sums");
  const passes = within(await drawer.findByRole("table", { name: "Passes, newest first" }));
  await waitFor(() => expect(passes.getAllByRole("row")[1]).toHaveTextContent("3644046110" + "2 zero variance, 1 worker lost"));
  const problems = within(await drawer.findByRole("table", { name: "Skipped problems, newest first" }));
  expect(problems.getAllByRole("row")[1]).toHaveTextContent(/^1313worker lost3w0/);
});

it("lists the evaluations of a lesson beside its chart; each opens its answers", async () => {
  showAll();
  serverOfLessons();
  await load("/runs/words/curriculum?lesson=sums");
  const drawer = await dialog("Lesson sums");
  expect(here()).toBe("/runs/words/curriculum?lesson=sums");
  await waitFor(() => expect(chart("lesson")).toHaveAttribute("aria-label", expect.stringContaining("newest evaluation 75")));
  expect(drawer.getByText("queued")).toBeVisible();
  fireEvent.click(drawer.getByRole("button", { name: "version 0" }));
  await waitFor(() => expect(here()).toBe("/runs/words/curriculum?lesson=sums&evaluation=e-1"));
  expect(await drawer.findByText("Answers of the evaluation at version 0")).toBeVisible();
  expect(drawer.getByText("1+1=")).toBeVisible();
  await press("Lock, unlock or change weight…");
  expect((await dialog("Steer sums")).getByLabelText("Weight factor")).toHaveValue("1");
});
