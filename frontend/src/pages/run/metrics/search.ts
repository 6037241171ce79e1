/** URL parameters of the metrics tab. Pure. */

import type { Span } from "@/api/metrics";
import type { MetricAxis, MetricLine } from "@/api/types";
import { namesOf } from "@/charts/names";
import { axisOf, endsOn, placeOn } from "@/charts/spans";

export type MetricsSearch = {
  q?: string;
  x?: MetricAxis;
  from?: number;
  to?: number;
  /** Weight of the moving average; defaults to none. */
  smooth?: number;
  /** Compared runs, comma-separated. */
  with?: string;
  /** The metric of the selected point, the point, and the start of its samples if there are several. */
  pick?: string;
  at?: number;
  since?: number;
  /** Metrics drawn on a log axis, comma-separated. */
  log?: string;
  /** Metrics pinned to the top, comma-separated, regardless of the search. */
  pin?: string;
  /** Prefix of the names: a branch of the tree. */
  under?: string;
  /** Regular expressions, each with one chart of all matching metrics. */
  panels?: string[];
  /** The saved layout that was opened. */
  layout?: number;
  /** Shown annotations; defaults to all. */
  marks?: "notes" | "none";
};

const RUNS_BESIDE = 19;

/** Parse search parameters; invalid values are dropped. */
export function metricsSearch(search: Record<string, unknown>): MetricsSearch {
  const x = axisOf(search.x);
  const { smooth } = search;
  const [at, since] = [placeOn(x, search.at), placeOn(x, search.since)];
  const pick = typeof search.pick === "string" && search.pick && at !== undefined ? search.pick : undefined;
  return {
    q: typeof search.q === "string" || typeof search.q === "number" ? String(search.q) : undefined,
    x,
    ...endsOn(x, search),
    smooth: typeof smooth === "number" && smooth > 0 && smooth < 1 ? smooth : undefined,
    with: typeof search.with === "string" && search.with ? search.with : undefined,
    pick,
    at: pick ? at : undefined,
    since: pick && at !== undefined && since !== undefined && since < at ? since : undefined,
    log: typeof search.log === "string" && search.log ? search.log : undefined,
    pin: typeof search.pin === "string" && search.pin ? search.pin : undefined,
    under: typeof search.under === "string" && search.under ? search.under : undefined,
    panels: expressionsOf(search.panels),
    layout: Number.isSafeInteger(search.layout) && (search.layout as number) > 0 ? (search.layout as number) : undefined,
    marks: search.marks === "notes" || search.marks === "none" ? search.marks : undefined,
  };
}

export const PANELS_AT_MOST = 20;

/** Parameters without a selected point. */
export const UNPICKED = { pick: undefined, at: undefined, since: undefined };

function expressionsOf(value: unknown): string[] | undefined {
  const found = Array.isArray(value) ? value.filter((each): each is string => typeof each === "string" && each !== "") : [];
  return found.length > 0 ? [...new Set(found)].slice(0, PANELS_AT_MOST) : undefined;
}

/** Keys in display order: pinned ones first, each once. */
export function pinnedFirst<K extends { name: string }>(pinned: readonly string[], keys: readonly K[]): K[] {
  const byName = new Map(keys.map((key) => [key.name, key]));
  const first = pinned.flatMap((name) => byName.get(name) ?? []);
  return [...first, ...[...byName.values()].filter(({ name }) => !pinned.includes(name))];
}

export type Picked = { metric: string; from: number; to: number };

/** The selected point; undefined without one. */
export function pickedOf({ pick, at, since }: MetricsSearch): Picked | undefined {
  return pick === undefined || at === undefined ? undefined : { metric: pick, from: since ?? at, to: at };
}

/** The range of the samples behind the point at `x`; null if the run has none. */
export function stretchAt(line: Pick<MetricLine, "x" | "x_first" | "is_exact"> | undefined, x: number): Span | null {
  if (!line || line.x.length === 0) return null;
  // For a point of another run's line, the next point of this run.
  let index = line.x.findIndex((each) => each >= x);
  if (index < 0) index = line.x.length - 1;
  const to = line.x[index] as number;
  return { from: line.is_exact ? to : (line.x_first[index] ?? to), to };
}

/** The run and the compared runs, without duplicates. */
export function runsOf(run: string, search: MetricsSearch): string[] {
  return [...new Set([run, ...namesOf(search.with).slice(0, RUNS_BESIDE)])];
}
