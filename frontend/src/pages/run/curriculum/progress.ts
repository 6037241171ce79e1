/** Chart data of the sampling of lessons. Pure. */

import type { LessonProgress, LessonRow } from "@/api/types";
import type { Column } from "@/charts/columns";

/** Maximum number of distinguishable lines. */
const MOST_LINES = 8;

export type ProgressLine = { lesson: string; share: Column; success: Column };
type ProgressColumns = { x: number[]; lines: ProgressLine[] };

/**
 * The lessons that get a line: the open one, then active ones, then the most sampled.
 *
 * They keep the order of the lessons, so that colours stay stable.
 */
export function linedOf(lessons: LessonRow[], { results }: LessonProgress, opened?: string, atMost = MOST_LINES): string[] {
  const samples = new Map(results.map((line) => [line.lesson, sum(line.samples)]));
  const rank = ({ name, status }: LessonRow): number => (name === opened ? 0 : status === "active" ? 1 : 2);
  const known = lessons.filter(({ name }) => samples.has(name));
  const chosen = new Set(
    [...known]
      .sort((a, b) => rank(a) - rank(b) || (samples.get(b.name) ?? 0) - (samples.get(a.name) ?? 0))
      .slice(0, atMost)
      .map(({ name }) => name),
  );
  return known.map(({ name }) => name).filter((name) => chosen.has(name));
}

/** Percentage of all samples, and of the lesson's own successes, by version; shares include lessons that are not drawn. */
export function progressColumns({ results }: LessonProgress, names: string[]): ProgressColumns {
  const totals = new Map<number, number>();
  for (const line of results) {
    line.step.forEach((step, at) => {
      totals.set(step, (totals.get(step) ?? 0) + (line.samples[at] ?? 0));
    });
  }
  const x = [...totals.keys()].sort((a, b) => a - b);
  const lines = names.map((lesson): ProgressLine => {
    const line = results.find((one) => one.lesson === lesson);
    const places = new Map(line?.step.map((step, at) => [step, at]));
    const samplesAt = (step: number): number => line?.samples[places.get(step) ?? -1] ?? 0;
    const successesAt = (step: number): number => line?.successes[places.get(step) ?? -1] ?? 0;
    return {
      lesson,
      share: x.map((step) => percentOf(samplesAt(step), totals.get(step) ?? 0)),
      success: x.map((step) => percentOf(successesAt(step), samplesAt(step))),
    };
  });
  return { x, lines };
}

const sum = (values: number[]): number => values.reduce((all, one) => all + one, 0);

const percentOf = (part: number, whole: number): number | null => (whole > 0 ? (100 * part) / whole : null);
