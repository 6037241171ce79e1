/** What the metrics tab keeps in its address. Pure. */

import type { MetricAxis, MetricLine, Span } from "@/api/metrics";
import { namesOf } from "@/charts/names";
import { axisOf, endsOn, placeOn } from "@/charts/spans";

export type MetricsSearch = {
  q?: string;
  x?: MetricAxis;
  from?: number;
  to?: number;
  /** Weight of the moving average; absent: none. */
  smooth?: number;
  /** Runs drawn beside this one, comma-separated. */
  with?: string;
  /** The metric of which a point was chosen, the point, and where its samples begin if it has several. */
  pick?: string;
  at?: number;
  since?: number;
  /** Metrics that are drawn over a log axis, comma-separated. */
  log?: string;
  /** Metrics that stand first, comma-separated, whatever is looked for. */
  pin?: string;
  /** What the names begin with: a branch of their tree. */
  under?: string;
  /** Regular expressions; each is a chart of all metrics whose names it matches. */
  panels?: string[];
  /** The kept layout that this began as. */
  layout?: number;
  /** Which marks are drawn; absent: all. */
  marks?: "notes" | "none";
};

const RUNS_BESIDE = 19;

/** Read an address; what makes no sense is left out. */
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

/** No point is chosen. */
export const UNPICKED = { pick: undefined, at: undefined, since: undefined };

function expressionsOf(value: unknown): string[] | undefined {
  const found = Array.isArray(value) ? value.filter((each): each is string => typeof each === "string" && each !== "") : [];
  return found.length > 0 ? [...new Set(found)].slice(0, PANELS_AT_MOST) : undefined;
}

/** The keys in the order in which they are shown: what is pinned first, each once. */
export function pinnedFirst<K extends { name: string }>(pinned: readonly string[], keys: readonly K[]): K[] {
  const byName = new Map(keys.map((key) => [key.name, key]));
  const first = pinned.flatMap((name) => byName.get(name) ?? []);
  return [...first, ...[...byName.values()].filter(({ name }) => !pinned.includes(name))];
}

export type Picked = { metric: string; from: number; to: number };

/** The point that was chosen; undefined without one. */
export function pickedOf({ pick, at, since }: MetricsSearch): Picked | undefined {
  return pick === undefined || at === undefined ? undefined : { metric: pick, from: since ?? at, to: at };
}

/** From where to where the samples of a point lie that was chosen at `x`; null where the run has none. */
export function stretchAt(line: Pick<MetricLine, "x" | "x_first" | "is_exact"> | undefined, x: number): Span | null {
  if (!line || line.x.length === 0) return null;
  // Where another run's line has the point, the next one of this run is meant.
  let index = line.x.findIndex((each) => each >= x);
  if (index < 0) index = line.x.length - 1;
  const to = line.x[index] as number;
  return { from: line.is_exact ? to : (line.x_first[index] ?? to), to };
}

/** The run itself and those beside it, each once. */
export function runsOf(run: string, search: MetricsSearch): string[] {
  return [...new Set([run, ...namesOf(search.with).slice(0, RUNS_BESIDE)])];
}
