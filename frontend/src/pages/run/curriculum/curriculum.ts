/** Charts and texts of lessons and their evaluations. Pure. */

import type { CurriculumPart, EvaluationRow, LessonRow } from "@/api/types";
import { lineStyleAt } from "@/charts/lineStyles";
import { counted, number, percent, policyStep, visible } from "@/format";
import type { Curve, PanelSpec } from "@/wall/panels";
import { PERCENT, presetOf } from "@/wall/presets";

/** Minimum interval between refetches of values that change with every answer. */
export const LOOK_AT_MOST_EVERY_MS = 1000;

type Interval = { estimate: number; low: number; high: number };

/** The interval as text: 0.91, between 0.86 and 0.95. */
function intervalText({ estimate, low, high }: Interval): string {
  return `${number(estimate)}, between ${number(low)} and ${number(high)}`;
}

/** The state of an evaluation without a result, with the error of its last attempt. */
function unfinishedText(row: Pick<EvaluationRow, "state" | "attempts" | "reason" | "worker">): string {
  const [attempts, reason] = [counted(row.attempts, "attempt"), visible(row.reason)];
  if (row.state === "failed" || row.state === "lost") return `${row.state} after ${attempts}: ${reason}`;
  const state = row.state === "leased" ? `running on ${visible(row.worker)}` : "queued";
  return reason ? `${state}; the last attempt failed: ${reason}` : state;
}

/** The result of an evaluation, or its state. */
export function resultText(row: EvaluationRow): string {
  if (!row.figures) return unfinishedText(row);
  const passes = Object.entries(row.pass_at).flatMap(([k, { estimate }]) => (k === "1" ? [] : `, pass@${k} ${percent(estimate)}`));
  return intervalText(row.figures.success) + passes.join("");
}

/** The evaluated version, or that of an evaluation without a result. */
export const versionOf = (row: EvaluationRow): string => policyStep(row.state === "done" ? row.policy_step : row.due_step);

/** A one-sentence summary of all lessons; the page's lessons are newer than the counts of the message. */
export function summaryOf({ effective_lessons, completed_at, ...counts }: CurriculumPart, lessons?: Pick<LessonRow, "status">[]): string {
  const states = (["active", "graduated", "locked"] as const).map((state) => ({
    state,
    count: lessons ? lessons.filter(({ status }) => status === state).length : counts[state],
  }));
  const found = states.filter(({ count }) => count > 0);
  if (completed_at && found.every(({ state }) => state === "graduated")) return `all ${counted(found[0]?.count ?? 0, "lesson")} graduated`;
  const active = states[0]?.count ?? 0;
  const spread = active > 1 ? ` · effective number of sampled lessons ${number(effective_lessons, 2)}` : "";
  return found.map(({ state, count }) => `${count} ${state}`).join(", ") + spread;
}

/** Number of distinguishable lines. */
const LINES_AT_MOST = 8;

/** The lessons that get a line: active ones, then the most sampled; in the order of the lessons. */
export function linedOf(lessons: readonly LessonRow[], atMost = LINES_AT_MOST): string[] {
  const rank = ({ status }: LessonRow): number => (status === "active" ? 0 : 1);
  const ranked = lessons.filter((row) => row.samples > 0 || row.evaluation || row.status === "active");
  const chosen = new Set(ranked.toSorted((a, b) => rank(a) - rank(b) || b.samples - a.samples).slice(0, atMost));
  return lessons.filter((row) => chosen.has(row)).map(({ name }) => name);
}

/** The charts of all lessons by policy version: share of tasks, success in training and in evaluation. */
export function lessonPanels(lessons: readonly LessonRow[]): PanelSpec[] {
  const names = linedOf(lessons);
  const scope = names.length < lessons.length ? `, ${names.length} of ${lessons.length} lessons` : "";
  const lines = (series: (name: string) => string): Curve[] =>
    names.map((name) => ({ name: series(name), label: name, ...lineStyleAt(lessons.findIndex((row) => row.name === name)) }));
  const common = { prefix: "", hasEqualCurves: true, ...PERCENT };
  return [
    presetOf({
      key: "share",
      title: "Share of tasks",
      note: `% of all tasks, by version${scope}`,
      ...common,
      curves: lines((name) => `curriculum/share/${name}`),
      empty: "No tasks yet.",
    }),
    presetOf({
      key: "success",
      title: "Training success",
      note: `% of the answers of each lesson${scope}`,
      ...common,
      curves: lines((name) => `rollout/${name}/success`),
      empty: "No training tasks finished yet.",
    }),
    presetOf({
      key: "evaluation",
      title: "Evaluation success",
      note: `% of the same problems each time${scope}`,
      ...common,
      curves: lines((name) => `eval/${name}/success`),
      empty: "Not evaluated yet.",
    }),
  ];
}

/** The chart of one lesson by policy version: evaluations with their interval and pass@k, and training. */
export function lessonPanel({ name, evaluation }: LessonRow): PanelSpec {
  const ks = Object.keys(evaluation?.pass_at ?? {}).filter((k) => k !== "1");
  const passes = ks.map((k, i): Curve => ({ name: `eval/${name}/pass_at/${k}`, label: `pass@${k}`, role: ((i % 4) + 4) as 4, thin: true }));
  return presetOf({
    key: "lesson",
    title: `Success of ${name}`,
    note: "in %, by version",
    prefix: "",
    columns: 12,
    ...PERCENT,
    curves: [
      { name: `eval/${name}/success`, label: "evaluation", role: 1 },
      ...passes,
      { name: `micro_eval/${name}/success`, label: "micro-evaluation", role: 3, dashed: true },
      { name: `rollout/${name}/success`, label: "training", role: 2, thin: true, dashed: true },
    ],
    band: { low: `eval/${name}/success/low`, high: `eval/${name}/success/high`, label: "interval" },
    empty: "Not evaluated yet.",
    height: 190,
  });
}
