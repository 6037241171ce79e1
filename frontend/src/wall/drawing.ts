/** Convert the server's lines to what a panel draws. Pure. */

import type { MetricLine } from "@/api/types";
import { type Column, interpolated } from "@/charts/columns";
import { parsed } from "@/charts/expression";
import { lineStyleAt } from "@/charts/lineStyles";
import { type Buckets, drawn, type MeanAndSpread, meanAndSpread, runLines, type Spread, smoothed, softened } from "@/charts/lines";
import type { ChartProps, Line } from "@/charts/model";
import { visible } from "@/format";
import { OWN, type PanelSpec, type Source } from "@/wall/panels";

export type Group = { label: string; runs: string[] };

/** How the lines of several runs are shown. */
export type RunsLook = {
  runs: readonly string[];
  /** Weight of the moving average; 0 disables it. */
  smooth: number;
  /** Index of each run in the page's list, which selects its style; defaults to the local index. */
  places?: ReadonlyMap<string, number>;
  /** Groups of runs, drawn as mean and spread; null without grouping. */
  groups?: readonly Group[] | null;
  spread?: Spread;
};

/** One line of a panel before it has columns. */
type Series = Buckets & { run: string; label: string; metric?: string };

const NOTHING: Buckets = { x: [], last: [], min: [], max: [], mean: [], is_exact: true };
/** Distance of a gap from its sample, smaller than any between two samples. */
const BEHIND = 1e-3;

/** A line as one column: the mean or maximum of each point's samples. */
function condensed(line: Buckets, of: "max" | "mean"): Buckets {
  const values = line[of];
  return line.is_exact || values.length !== line.x.length ? line : { ...line, last: values };
}

/** Empty points behind each zero of a line, at which the other lines of the panel break. */
function gapsBehindZeros(line: Buckets): Buckets {
  const lowest = line.is_exact ? line.last : line.min;
  const x = line.x.filter((_, i) => lowest[i] === 0).map((at) => at + BEHIND);
  return { ...NOTHING, x, last: x.map(() => null) };
}

type Found = ReadonlyMap<string, MetricLine>;
const keyOf = (run: string, name: string): string => `${run}\n${name}`;
const lineOf = (found: Found, run: string, name: string): Buckets => found.get(keyOf(run, name)) ?? NOTHING;

/** The expression along the lines of its metrics; between two samples a metric lies on a straight line. */
export function evaluated(text: string, found: Found, run: string): Buckets {
  const { expression } = parsed(text);
  if (!expression) return NOTHING;
  const { x, last } = drawn(expression.names.map((name) => lineOf(found, run, name)));
  const columns = new Map(expression.names.map((name, i) => [name, interpolated(x, last[i] ?? [])]));
  const values = x.map((_, i) => expression.evaluate((name) => columns.get(name)?.[i] ?? null));
  return { x, last: values, min: values, max: values, mean: values, is_exact: true };
}

/** The lines of a panel; regular expressions have one for each run and each of `names`. */
function seriesOf(source: Source, found: Found, runs: readonly string[], names: readonly string[]): Series[] {
  if (source.kind === "metric") {
    return runs.map((run) => ({ ...lineOf(found, run, source.name), run, label: run, metric: source.name }));
  }
  if (source.kind === "expression") return runs.map((run) => ({ ...evaluated(source.text, found, run), run, label: run }));
  if (source.kind === "preset") {
    const { prefix = OWN } = source;
    const curves = runs.length === 1 ? source.curves : source.curves.slice(0, 1);
    return runs.flatMap((run) =>
      curves.map(({ name, of, label }) => {
        const line = condensed(lineOf(found, run, prefix + name), of ?? "mean");
        return { ...line, run, label: runs.length === 1 ? label : run, metric: prefix + name };
      }),
    );
  }
  const label = (run: string, name: string) => (runs.length > 1 ? `${run} ${visible(name)}` : visible(name));
  return runs.flatMap((run) => names.map((name) => ({ ...lineOf(found, run, name), run, label: label(run, name), metric: name })));
}

const FIELDS = ["last", "min", "max", "mean"] as const;

/**
 * A line over another metric of its run instead of the axis of the page, in ascending order of it.
 *
 * The other metric is interpolated at the positions of the line, so points beyond its ends and in its gaps are
 * omitted; of points with the same value of it, the last one counts.
 */
export function overMetric<L extends Buckets>(line: L, other: Buckets): L & { isOrdered: boolean } {
  const { x, last } = drawn([line, other]);
  const places = interpolated(x, last[1] ?? []);
  const at = new Map(x.map((position, i) => [position, places[i]]));
  const points = line.x.flatMap((position, i) => {
    const place = at.get(position);
    return typeof place === "number" ? [{ place, i }] : [];
  });
  const isOrdered = points.every(({ place }, i) => i === 0 || place >= (points[i - 1]?.place ?? place));
  const sorted = [...new Map(points.map((point) => [point.place, point])).values()].sort((a, b) => a.place - b.place);
  const fields = Object.fromEntries(
    FIELDS.map((field) => [field, line[field].length === line.x.length ? sorted.map(({ i }) => line[field][i]) : []]),
  );
  return { ...line, ...fields, x: sorted.map(({ place }) => place), isOrdered };
}

export type RunColumn = { run: string; values: Column };

/** For each group a mean, above the two edges of its spread; the three share a legend entry. */
export function groupLines(
  groups: readonly Group[],
  x: readonly number[],
  columns: readonly RunColumn[],
  { spread = "deviation", smooth }: Pick<RunsLook, "spread" | "smooth">,
): Line[] {
  const byRun = new Map(columns.map(({ run, values }) => [run, interpolated(x, values)]));
  return groups.flatMap(({ label, runs }, place): Line[] => {
    const own = runs.flatMap((run) => [byRun.get(run) ?? []]);
    const at = x.map((_, i) =>
      meanAndSpread(
        own.flatMap((values) => values[i] ?? []),
        spread,
      ),
    );
    const column = (of: (one: MeanAndSpread) => number | null) =>
      smoothed(
        at.map((one) => one && of(one)),
        smooth,
      );
    const style = lineStyleAt(place);
    const edge = { entry: label, role: style.role, thin: true };
    return [
      { ...edge, label: `${label}, low`, values: column(({ low }) => low) },
      { ...edge, label: `${label}, high`, values: column(({ high }) => high), isFilled: true },
      { ...style, entry: label, label: `${label}, mean`, values: column(({ mean }) => mean) },
    ];
  });
}

/** A line that alert rules can watch: its metric, and its unscaled values. */
export type Watched = { metric: string; run: string; label: string; values: Column };

export type Drawing = Pick<ChartProps, "x" | "lines" | "band"> & {
  /** The newest value of the first line. */
  newest: number | null;
  watched: Watched[];
  /** The found lines, in the order of the drawn ones. */
  found: MetricLine[];
  /** Runs, or metrics of an expression, without samples. */
  absent: string[];
  /** True if the x axis is a metric that also decreases: points are not connected. */
  isScatter: boolean;
};

type Options = RunsLook & { names?: readonly string[]; x?: string };

function bandOf({ source }: PanelSpec, found: Found, runs: readonly string[]): { lines: Buckets[]; label: string } | null {
  if (source.kind !== "preset" || !source.band || runs.length !== 1) return null;
  const { band, prefix = OWN } = source;
  const { low, high, label } = band;
  const lines = [low, high].map((name) => condensed(lineOf(found, runs[0] ?? "", prefix + name), "mean"));
  return { lines, label };
}

/** The last sample itself, regardless of bucketing. */
export function newestOf(values: Column | undefined): number | null {
  return values?.findLast((one) => typeof one === "number") ?? null;
}

function absentFrom(source: Source, found: readonly MetricLine[], runs: readonly string[]): string[] {
  if (source.kind === "expression") {
    const names = parsed(source.text).expression?.names ?? [];
    return names.filter((name) => !found.some((line) => line.name === name && line.samples > 0));
  }
  if (source.kind !== "metric") return [];
  return runs.filter((run) => !found.some((line) => line.run === run && line.name === source.name && line.samples > 0));
}

/** Columns of the series as lines: groups of runs, the styles of a preset, or one style for each series. */
function linesOf({ source }: PanelSpec, series: readonly Series[], columns: Column[], x: number[], options: Options): Line[] {
  const { groups, smooth, places, runs } = options;
  if (groups && source.kind !== "regex") {
    const ofRuns = series.map(({ run }, i) => ({ run, values: columns[i] ?? [] }));
    return groupLines(groups, x, ofRuns, options);
  }
  if (source.kind === "preset" && runs.length === 1) {
    const lines = source.curves.map(({ name: _, of: _of, ...style }, i): Line => ({ ...style, values: columns[i] ?? [] }));
    return softened(
      lines.filter((line, i) => i === 0 || line.values.some((value) => typeof value === "number")),
      smooth,
    );
  }
  const labels = series.map(({ label }) => label);
  return runLines(labels, columns, { smooth, places: source.kind === "regex" ? undefined : places });
}

/** Convert the lines of a panel to columns on a common x; `x` is the metric of the x axis, if it has one of its own. */
export function drawingOf(spec: PanelSpec, lines: readonly MetricLine[], options: Options): Drawing {
  const { source } = spec;
  const { runs, groups, names = [], x: xName } = options;
  const found = new Map(lines.map((line) => [keyOf(line.run, line.name), line]));
  const own = seriesOf(source, found, runs, names);
  const edges = bandOf(spec, found, runs);
  const edgeLines = (edges?.lines ?? []).map((line) => ({ ...line, run: runs[0] ?? "" }));
  const placed = [...own, ...edgeLines].map((line) =>
    xName === undefined ? { ...line, isOrdered: true } : overMetric(line, lineOf(found, line.run, xName)),
  );
  const hasGaps = source.kind === "preset" && source.gapsAt && xName === undefined && placed.some(({ x }) => x.length > 0);
  const behind = hasGaps ? runs.map((run) => gapsBehindZeros(lineOf(found, run, OWN + source.gapsAt))) : [];
  const { x, last, band } = drawn([...placed, ...behind]);
  const scale = source.kind === "preset" ? (source.scale ?? 1) : 1;
  // Where only another line has a sample, a line continues, except behind a zero of `gapsAt`.
  const scaled = (values: Column): Column => values.map((value) => (typeof value === "number" ? value * scale : hasGaps ? null : value));
  const columns = source.kind === "preset" ? last.map(scaled) : last;
  const [low, high] = columns.slice(own.length, placed.length);
  const ownBand = source.kind === "metric" && band ? { ...band, label: "min – max" } : undefined;
  const foundLines = own.flatMap(({ run, metric }) => (metric && found.get(keyOf(run, metric))) || []);
  return {
    x,
    lines: linesOf(spec, own, columns.slice(0, own.length), x, options),
    band: groups ? undefined : edges && low && high ? { low, high, label: edges.label } : ownBand,
    newest: newestOf(scaled((own[0]?.metric ? foundLines[0] : own[0])?.last ?? [])),
    watched: own.flatMap(({ metric, run, label }, i) => (metric ? [{ metric, run, label, values: last[i] ?? [] }] : [])),
    found: foundLines,
    absent: absentFrom(source, lines, runs),
    isScatter: placed.slice(0, own.length).some(({ isOrdered }) => !isOrdered),
  };
}
