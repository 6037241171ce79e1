/** The returns of compared runs: last, best, and at equal train steps. Pure. */

import type { MetricLine } from "@/api/types";
import { leadsOf, type RunKind } from "@/runs/metricOrder";
import { figuresOf, type Shared } from "./comparing";

/** The metric by which runs are compared: the first return that most of them have. */
export function returnMetricOf(kinds: readonly RunKind[], union: readonly Shared[]): string | undefined {
  const owners = new Map(union.map(({ name, runs }) => [name, runs.length]));
  const leads = leadsOf(
    kinds,
    union.map(({ name }) => name),
  );
  const most = Math.max(...leads.map((name) => owners.get(name) ?? 0));
  return leads.find((name) => owners.get(name) === most);
}

type StepLine = Pick<MetricLine, "run" | "x" | "samples">;

/** The greatest train step that every run with samples has reached; null for fewer than two runs. */
export function equalStep(lines: readonly StepLine[]): number | null {
  const last = lines.filter(({ samples }) => samples > 0).flatMap(({ x }) => x.at(-1) ?? []);
  return last.length < 2 ? null : Math.min(...last);
}

export type Returns = { last: number | null; best: number | null; atEqualStep: number | null };

/** The returns of a run, from its line over all train steps and its line up to the equal step. */
export function returnsOf(run: string, lines: readonly MetricLine[], untilEqual: readonly MetricLine[]): Returns | null {
  const figures = figuresOf(lines.find((line) => line.run === run));
  if (!figures) return null;
  const equal = figuresOf(untilEqual.find((line) => line.run === run));
  return { last: figures.last, best: figures.greatest, atEqualStep: equal?.last ?? null };
}
