/** Chart data of lessons and their evaluations. Pure. */

import type { CurriculumPart, EvaluationRow, LessonChange, LessonRow, MicroEvaluationRow } from "@/api/types";
import type { Column } from "@/charts/columns";
import { counted, number, percent, visible } from "@/format";

/** Minimum interval between refetches of values that change with every answer. */
export const LOOK_AT_MOST_EVERY_MS = 1000;

export type Interval = { estimate: number; low: number; high: number };

const part = (value: number): string => `${(100 * Math.min(1, Math.max(0, value))).toFixed(1)}%`;

/** The position of an interval on a bar from 0 to 1, as CSS lengths. */
export function barOf({ estimate, low, high }: Interval): { left: string; width: string; at: string } {
  return { left: part(low), width: part(Math.max(0, high - low)), at: part(estimate) };
}

/** The interval as text: 0.91, between 0.86 and 0.95. */
export function intervalText({ estimate, low, high }: Interval): string {
  return `${number(estimate)}, between ${number(low)} and ${number(high)}`;
}

type EvaluationColumns = {
  x: number[];
  isRound: boolean;
  success: Column;
  low: Column;
  high: Column;
  reward: Column;
};

/**
 * The columns of a lesson's chart, with x ascending.
 *
 * The x axis shows versions; if a restored trainer restarted its versions, it shows rounds instead.
 */
export function evaluationColumns(rows: EvaluationRow[]): EvaluationColumns {
  const done = rows.filter(({ figures }) => figures !== null).sort((a, b) => a.round - b.round);
  const isRound = new Set(done.map(({ epoch }) => epoch)).size > 1;
  const seen = new Set<number>();
  const shown = done.filter((row) => {
    const x = isRound ? row.round : row.policy_step;
    return seen.has(x) ? false : seen.add(x);
  });
  const column = (pick: (figures: NonNullable<EvaluationRow["figures"]>) => number): Column =>
    shown.map(({ figures }) => (figures ? pick(figures) : null));
  return {
    x: shown.map((row) => (isRound ? row.round : row.policy_step)),
    isRound,
    success: column((figures) => figures.success.estimate),
    low: column((figures) => figures.success.low),
    high: column((figures) => figures.success.high),
    reward: column((figures) => figures.reward.estimate),
  };
}

/** The state of an evaluation without a result, with the error of its last attempt. */
export function unfinishedText(row: Pick<EvaluationRow, "state" | "attempts" | "reason">): string {
  const attempts = counted(row.attempts, "attempt");
  if (row.state === "failed") return `Failed after ${attempts}: ${visible(row.reason)}`;
  if (row.state === "lost") return `Lost after ${attempts}: ${visible(row.reason)}`;
  return row.reason ? `No result yet. The last attempt failed: ${visible(row.reason)}` : "No result yet.";
}

type WithMicro = EvaluationColumns & { micro: Column | null };

/**
 * The columns of a lesson's chart with micro-evaluations as an additional line.
 *
 * Of several at one version the newest counts; failed ones, and all on an axis of rounds, are omitted.
 */
export function withMicro(columns: EvaluationColumns, rows: MicroEvaluationRow[]): WithMicro {
  if (columns.isRound || rows.length === 0) return { ...columns, micro: null };
  const newestFirst = new Map<number, number>();
  for (const row of rows) if (row.success && !newestFirst.has(row.policy_step)) newestFirst.set(row.policy_step, row.success.estimate);
  const x = [...new Set([...columns.x, ...newestFirst.keys()])].sort((a, b) => a - b);
  const places = new Map(columns.x.map((at, i) => [at, i]));
  const spread = (column: Column): Column =>
    x.map((at) => {
      const place = places.get(at);
      return place === undefined ? undefined : column[place];
    });
  return {
    x,
    isRound: false,
    success: spread(columns.success),
    low: spread(columns.low),
    high: spread(columns.high),
    reward: spread(columns.reward),
    micro: x.map((at) => newestFirst.get(at)),
  };
}

/** pass@k as text, with k ascending: pass@1 62 %, pass@4 80 %. */
export function passText(passAt: Record<string, number>): string {
  return Object.entries(passAt)
    .map(([k, rate]) => [Number(k), rate] as const)
    .sort(([a], [b]) => a - b)
    .map(([k, rate]) => `pass@${k} ${percent(rate)}`)
    .join(", ");
}

/** A one-sentence summary of all lessons. */
export function summaryOf(curriculum: CurriculumPart, lessons?: Pick<LessonRow, "status">[]): string {
  return lessons ? summaryText(ofLessons(curriculum, lessons)) : summaryText(curriculum);
}

/** The summary with the counts of the page's lessons, which are read in another request. */
function ofLessons(curriculum: CurriculumPart, lessons: Pick<LessonRow, "status">[]): CurriculumPart {
  const count = (state: LessonRow["status"]) => lessons.filter(({ status }) => status === state).length;
  const counts = { locked: count("locked"), active: count("active"), graduated: count("graduated") };
  return { ...curriculum, ...counts, completed_at: counts.graduated === lessons.length ? curriculum.completed_at : null };
}

function summaryText({ locked, active, graduated, effective_lessons, completed_at }: CurriculumPart): string {
  if (completed_at) return `all ${graduated} lessons graduated`;
  const states = [
    [active, "active"],
    [graduated, "graduated"],
    [locked, "locked"],
  ] as const;
  const counted = states.filter(([count]) => count > 0).map(([count, word]) => `${count} ${word}`);
  const spread = active > 1 ? ` · effective number of sampled lessons ${number(effective_lessons, 2)}` : "";
  return counted.join(", ") + spread;
}

const MOVES: Record<string, string> = {
  "locked active": "unlocked",
  "active graduated": "graduated",
  "graduated active": "regressed",
};

/** The label of a lesson's transition. */
export function moveOf({ source, target }: Pick<LessonChange, "source" | "target">): string {
  if (source === target) return "steered";
  return MOVES[`${source} ${target}`] ?? `${source} → ${target}`;
}
