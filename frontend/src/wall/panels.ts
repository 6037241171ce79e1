/** Descriptions of the panels of a wall, and their texts in addresses. Pure. */

import { parsed } from "@/charts/expression";
import type { Line } from "@/charts/model";
import type { Columns } from "@/components/panels";
import { visible } from "@/format";
import { whyEndless } from "@/forms/expressions";

/** A curve of a preset: a metric and its style. */
export type Curve = Pick<Line, "label" | "role" | "thin" | "dashed" | "dash" | "marker"> & {
  /** Name of the metric without the prefix of the panel. */
  name: string;
  /** Aggregation of a point's samples; defaults to the mean. */
  of?: "max";
};

/** What a panel draws: one metric, all that match a regular expression, an expression of metrics, or chosen curves. */
export type Source =
  | { kind: "metric"; name: string }
  | { kind: "regex"; pattern: string }
  | { kind: "expression"; text: string }
  | {
      kind: "preset";
      /** Prefix of the names; defaults to that of built-in metrics. */
      prefix?: string;
      /** Of several runs, only the first one is drawn. */
      curves: Curve[];
      band?: { low: string; high: string; label: string };
      /** A metric that is 0 where the others begin a gap. */
      gapsAt?: string;
      /** Factor applied to the values. */
      scale?: number;
    };

export type PanelSpec = {
  /** Its text in addresses, or the key of a preset; unique on a wall. */
  key: string;
  title: string;
  note?: string;
  source: Source;
  /** True if the first curve does not stand for the others, so that its newest value is not shown. */
  hasEqualCurves?: boolean;
  unit?: string;
  floor?: number;
  /** Minimum extent of the y axis above the floor. */
  least?: number;
  /** Shown without any sample. */
  empty?: string;
  /** Height of the chart in px. */
  height?: number;
  /** Columns of the grid of twelve. */
  columns?: Columns;
};

/** Prefix of the built-in metrics. */
export const OWN = "rolldeck/";
export const PANELS_AT_MOST = 24;

/** The source of a panel's text: `/regex/`, `= expression`, or the name of a metric. */
export function sourceOf(text: string): Source {
  if (text.startsWith("=")) return { kind: "expression", text };
  if (/^\/.+\/$/.test(text)) return { kind: "regex", pattern: text.slice(1, -1) };
  return { kind: "metric", name: text };
}

/** The panel of a text in an address. */
export const panelOf = (text: string): PanelSpec => ({ key: text, title: visible(text), source: sourceOf(text) });

const literal = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);

/** The text of a panel of all metrics with a beginning. */
export const panelOfAll = (prefix: string): string => `/^${literal(prefix)}/`;

/** The text of the panel of a rule's metric, in which `*` stands for any text. */
export const panelOfRule = (metric: string): string => (metric.includes("*") ? `/^${metric.split("*").map(literal).join(".*")}$/` : metric);

/** The error of a panel's text; null if it is valid. */
export function problemOf(source: Source): string | null {
  if (source.kind === "expression") return parsed(source.text).problem;
  return source.kind === "regex" ? matched([], source.pattern).problem : null;
}

/** The metrics that a panel requests, except those of a regular expression. */
export function namesOf(source: Source): string[] {
  if (source.kind === "metric") return [source.name];
  if (source.kind === "expression") return parsed(source.text).expression?.names ?? [];
  if (source.kind === "regex") return [];
  const { curves, band, gapsAt, prefix = OWN } = source;
  const names = [...curves.map(({ name }) => name), ...(band ? [band.low, band.high] : []), ...(gapsAt ? [gapsAt] : [])];
  return names.map((name) => prefix + name);
}

/** Names that contain every word, case-insensitive. */
export function withWords(names: readonly string[], words: string): readonly string[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return wanted.length === 0 ? names : names.filter((name) => wanted.every((word) => name.toLowerCase().includes(word)));
}

/** The beginnings of names, up to a slash or a dot, that several names have; with their number. */
export function branchesOf(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names)
    for (const { index } of name.matchAll(/[/.]/g)) {
      const branch = name.slice(0, index + 1);
      counts.set(branch, (counts.get(branch) ?? 0) + 1);
    }
  return new Map([...counts].filter(([, count]) => count > 1));
}

/** Lines of one panel. */
export const LINES_AT_MOST = 20;
const MATCH_MS = 200;
export type Matched = { names: readonly string[]; total: number; problem: string | null };

/** Names that match an expression, up to the limit of one chart; `problem` explains an invalid expression. */
export function matched(names: readonly string[], expression: string): Matched {
  const none = { names: [], total: 0 };
  let wanted: RegExp;
  try {
    wanted = new RegExp(expression);
  } catch {
    return { ...none, problem: "Invalid expression." };
  }
  const danger = whyEndless(expression);
  if (danger) return { ...none, problem: danger };
  const found: string[] = [];
  const until = performance.now() + MATCH_MS;
  for (const name of names) {
    if (wanted.test(name)) found.push(name);
    if (performance.now() > until) return { ...none, problem: "The expression takes too long to evaluate." };
  }
  return { names: found.slice(0, LINES_AT_MOST), total: found.length, problem: null };
}

/** Above this number of lines the server reads coarser blocks. */
const LINES_A_REQUEST = 30;
/** Bounds the latency of one request; a screen shows fewer charts. */
const NAMES_A_REQUEST = 12;

/**
 * The names that are requested together, for each panel by its key.
 *
 * Neighbouring panels of one metric share a request, and so do the presets of one run, which may be given as
 * `together`. Others have their own, so that an error concerns one panel; so have those whose keys are in `alone`.
 */
export function requestsOf(
  panels: readonly PanelSpec[],
  { runs, alone, together }: { runs: number; alone: ReadonlySet<string>; together?: readonly string[] },
): Map<string, readonly string[]> {
  const limit = Math.max(1, Math.min(NAMES_A_REQUEST, Math.floor(LINES_A_REQUEST / Math.max(1, runs))));
  const presets = together ?? [...new Set(panels.flatMap(({ source }) => (source.kind === "preset" ? namesOf(source) : [])))];
  let open: string[] = [];
  const requests = new Map<string, readonly string[]>();
  for (const { key, source } of panels) {
    if (alone.has(key)) requests.set(key, namesOf(source));
    else if (source.kind === "preset" && runs === 1) requests.set(key, presets);
    else if (source.kind === "metric") {
      if (open.length >= limit) open = [];
      open.push(source.name);
      requests.set(key, open);
    } else requests.set(key, namesOf(source));
  }
  return requests;
}
