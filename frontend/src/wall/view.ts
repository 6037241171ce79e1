/** The view of a page with charts: runs, filter, axis, range, smoothing, panels and selection, as in its address. Pure. */

import * as v from "valibot";
import type { Span } from "@/api/metrics";
import type { MetricLine } from "@/api/types";
import { endsOn, namesOf, placeOn } from "@/charts/names";
import type { ShareSearch } from "@/share/share";
import { PANELS_AT_MOST } from "@/wall/panels";

export const RUNS_AT_MOST = 20;
/** Time ranges in seconds. */
export const RANGES = [900, 3600, 21_600, 86_400] as const;
export type Range = (typeof RANGES)[number];

/** A value that is dropped if it is invalid. */
const kept = <T>(schema: v.GenericSchema<unknown, T>) => v.fallback(v.optional(schema), undefined);
const isTexts = (value: unknown[]): string[] => [...new Set(value.filter((one) => typeof one === "string" && one !== ""))] as string[];

/** A text; the router reads some as numbers or booleans. */
const word = kept(v.pipe(v.union([v.string(), v.number(), v.boolean()]), v.transform(String), v.nonEmpty()));
const number = kept(v.pipe(v.number(), v.finite()));

const SCHEMA = v.object({
  /** Names of runs, comma-separated: all runs of a comparison, or those beside the run of the page. */
  runs: word,
  /** Words that metric names must contain. */
  q: word,
  /** The x axis; each page has a default. */
  x: kept(v.picklist(["step", "time", "elapsed", "amount"])),
  from: number,
  to: number,
  /** The newest seconds, which move with time. */
  last: kept(v.picklist(RANGES)),
  /** Weight of the moving average; defaults to none. */
  smooth: kept(v.pipe(v.number(), v.gtValue(0), v.ltValue(1))),
  /** Panels: names of metrics, `/regex/` and `= expression`. */
  charts: kept(
    v.pipe(
      v.array(v.unknown()),
      v.transform((texts) => isTexts(texts).slice(0, PANELS_AT_MOST)),
      v.minLength(1),
    ),
  ),
  /** Hidden runs, comma-separated. */
  hide: word,
  /** What runs are grouped by: `all`, `tag`, `project`, or `config.` and the path of a setting. */
  by: kept(v.pipe(v.string(), v.regex(/^(all|tag|project|config\..{1,200})$/))),
  /** Spread of a group; defaults to the standard deviation. */
  spread: kept(v.literal("range")),
  /** The metric of the selected point, the point, and the start of its samples if there are several. */
  pick: word,
  at: number,
  since: number,
  /** Whether a comparison includes settings that all runs share. */
  config: kept(v.literal("all")),
  /** The saved view that was opened. */
  view: kept(v.pipe(v.number(), v.safeInteger(), v.minValue(1))),
});

type Parsed = v.InferOutput<typeof SCHEMA>;
export type View = { [K in keyof Parsed]?: Parsed[K] };

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** Parameters of earlier versions, which the router keeps unless a route names them. */
const EARLIER = {
  with: undefined,
  layout: undefined,
  pin: undefined,
  prompt: undefined,
  m: undefined,
  panels: undefined,
  log: undefined,
  under: undefined,
  marks: undefined,
};

/** The parameters of links of earlier versions under their present names. */
function renamed(search: Record<string, unknown>): Record<string, unknown> {
  const { with: beside, layout, pin, m, panels, under, ...present } = search;
  const earlier = Array.isArray(panels) ? isTexts(panels) : [];
  const charts = [...namesOf(text(pin)), ...namesOf(text(m)), ...earlier.map((one) => (one.startsWith("=") ? one : `/${one}/`))];
  return {
    ...present,
    q: [text(under), present.q].filter(Boolean).join(" ") || undefined,
    runs: present.runs ?? beside,
    view: present.view ?? layout,
    charts: present.charts ?? (charts.length > 0 ? charts : undefined),
  };
}

/** Parse search parameters; invalid values are dropped. */
export function viewSearch(search: Record<string, unknown>): View {
  const view: View = v.parse(SCHEMA, renamed(search));
  const { x, since } = view;
  const at = placeOn(x, view.at);
  const pick = at === undefined ? undefined : view.pick;
  const ends = endsOn(x, view);
  return {
    ...EARLIER,
    ...view,
    ...ends,
    // A zoomed chart does not follow new data.
    last: (x === undefined || x === "time") && ends.from === undefined ? view.last : undefined,
    pick,
    at: pick === undefined ? undefined : at,
    since: pick !== undefined && since !== undefined && at !== undefined && since < at ? placeOn(x, since) : undefined,
  };
}

/** Parameters without a selected point, and without a range. */
export const UNPICKED = { pick: undefined, at: undefined, since: undefined };
export const UNZOOMED = { from: undefined, to: undefined };

/** The runs of a view after those of its page, each once. */
export function runsOf({ runs }: View, ...first: string[]): string[] {
  return [...new Set([...first, ...namesOf(runs)])].slice(0, RUNS_AT_MOST);
}

/** What a saved view stores: everything but the selection. */
export type SavedSearch = Omit<View, "pick" | "at" | "since" | "view"> & Pick<ShareSearch, "looks">;

/** The parameters of a saved view, without undefined ones. */
export function savedOf(search: View & ShareSearch): SavedSearch {
  const { pick: _pick, at: _at, since: _since, view: _view, focus: _focus, ...rest } = search;
  return Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
}

/** Parameters that replace a view by another; no previous value remains. */
export function replacing(old: View & ShareSearch, saved: SavedSearch): View & ShareSearch {
  const none = Object.fromEntries(Object.keys(old).map((key) => [key, undefined]));
  return { ...none, ...viewSearch(saved), looks: saved.looks };
}

/** The parameters that are remembered for the next visit. */
export const REMEMBERED = ["charts", "x", "smooth"] as const;
export type Remembered = Pick<View, (typeof REMEMBERED)[number]>;

export const rememberedOf = ({ charts, x, smooth }: View): Remembered => ({ charts, x, smooth });

/** Whether an address shows the default panels and axes. */
export const isDefault = (view: View): boolean => REMEMBERED.every((name) => view[name] === undefined);

export type Picked = { metric: string; from: number; to: number };

/** The selected point; undefined without one. */
export function pickedOf({ pick, at, since }: View): Picked | undefined {
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
