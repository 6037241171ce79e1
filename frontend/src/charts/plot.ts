/** Options of uPlot: axes with their ticks, lines, bands and marks. */

import uPlot from "uplot";
import type { Column } from "@/charts/columns";
import { SHAPES } from "@/charts/lineStyles";
import { centralRange, pauses } from "@/charts/look";
import { HEIGHT, type Line, MANY_LINES, type Mark, type Marked, type Plotted } from "@/charts/model";
import { aloneIn, indexAt } from "@/charts/sheet";
import { count, DAY, dateText, elapsed, MINUTE, number, SECOND, timeZone } from "@/format";

/** The value of a CSS custom property. */
export const paint = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A canvas takes neither `rem` nor variables. */
const canvasFont = (): string => `${paint("--mantine-font-weight-regular")} 12px ${paint("--mantine-font-family")}`;

const DAY_SECONDS = 86_400;

/** Tick intervals in seconds: clock steps, then calendar steps. */
export const CLOCK_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200];
export const DAY_STEPS = [1, 2, 5, 10, 30, 90, 365].map((days) => days * DAY_SECONDS);

/** A date at midnight, else a time, the first one with its date; `timeZone` defaults to the user's. */
export function momentTicks(ticks: number[], timeZone?: string): string[] {
  const step = (ticks[1] ?? 60) - (ticks[0] ?? 0);
  return ticks.map((tick, index) => {
    const at = new Date(tick * 1000);
    const time = dateText(at, step < 60 ? SECOND : MINUTE, timeZone);
    const beginsADay = step >= DAY_SECONDS || /^00:00(:00)?$/.test(time);
    const date = dateText(at, DAY, timeZone);
    if (beginsADay) return date;
    return index === 0 ? `${date} ${time}` : time;
  });
}

/** Format a time on a chart of the given span; with the date if it covers several days. */
export function momentName(seconds: number, span: number, timeZone?: string): string {
  const at = new Date(seconds * 1000);
  const time = dateText(at, SECOND, timeZone);
  return span < DAY_SECONDS ? time : `${dateText(at, DAY, timeZone)}, ${time}`;
}

const INK: Record<Mark["role"], string> = { note: "--accent", event: "--ink-faint", version: "--busy" };
const DASH: Record<Mark["role"], number[]> = { note: [], event: [2, 4], version: [1, 6] };
/** Above this number of versions in view, their lines would hide the chart. */
const VERSIONS_AT_MOST = 24;
const FLAG_WIDTH = 9;
const FLAG_HEIGHT = 7;
const NEAR_PX = 6;

function drawFlag(ctx: CanvasRenderingContext2D, x: number, top: number, ratio: number): void {
  ctx.beginPath();
  ctx.moveTo(x, top);
  ctx.lineTo(x + FLAG_WIDTH * ratio, top + (FLAG_HEIGHT * ratio) / 2);
  ctx.lineTo(x, top + FLAG_HEIGHT * ratio);
  ctx.closePath();
  ctx.fill();
}

/** Marks within a range; versions only if there are few of them. */
export function shownMarks(marks: readonly Mark[], from: number, to: number): Mark[] {
  const within = marks.filter(({ x }) => x >= from && x <= to);
  const versions = within.filter(({ role }) => role === "version").length;
  return versions > VERSIONS_AT_MOST ? within.filter(({ role }) => role !== "version") : within;
}

/** The shown marks of a plot's present range. */
export function marksIn(u: uPlot, marks: readonly Mark[]): Mark[] {
  const { min, max } = u.scales.x ?? {};
  return shownMarks(marks, min ?? -Infinity, max ?? Infinity);
}

/** Draw the visible marks as thin lines; users' notes carry a flag. */
export function drawMarks(u: uPlot, marks: readonly Mark[], ratio: number): void {
  const { ctx } = u;
  const { top, height } = u.bbox;
  ctx.save();
  ctx.lineWidth = ratio;
  for (const { x, role } of marksIn(u, marks)) {
    const at = Math.round(u.valToPos(x, "x", true)) + 0.5;
    ctx.strokeStyle = ctx.fillStyle = paint(INK[role]);
    ctx.setLineDash(DASH[role].map((length) => length * ratio));
    ctx.beginPath();
    ctx.moveTo(at, top);
    ctx.lineTo(at, top + height);
    ctx.stroke();
    if (role === "note") drawFlag(ctx, at, top, ratio);
  }
  ctx.restore();
}

/** Draw the threshold. */
export function drawThreshold(u: uPlot, { threshold }: Marked, ratio: number): void {
  const { ctx } = u;
  const { left, top, width, height } = u.bbox;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  if (threshold !== undefined) {
    const level = Math.round(u.valToPos(threshold, "y", true)) + 0.5;
    ctx.strokeStyle = paint("--bad");
    ctx.lineWidth = 1.5 * ratio;
    ctx.setLineDash([6 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(left, level);
    ctx.lineTo(left + width, level);
    ctx.stroke();
  }
  ctx.restore();
}

/** Marks under the pointer; `placeOf` converts an x value to pixels, as `left`. */
export function marksAt(marks: readonly Mark[], left: number, placeOf: (x: number) => number): Mark[] {
  return marks.filter(({ x }) => Math.abs(placeOf(x) - left) <= NEAR_PX);
}

const FAINT = 0.25;
/** Appended to a colour in hexadecimal digits. */
const FILL_ALPHA = "24";
const MARKER_EVERY = 96;
const MARKER_SIZE = 3.6;

const clockTicks = (_u: uPlot, ticks: number[]): string[] => momentTicks(ticks, timeZone());
const countTicks = (_u: uPlot, ticks: (number | null)[]): string[] => ticks.map((tick) => (tick === null ? "" : count(tick)));
const durationTicks = (_u: uPlot, ticks: (number | null)[]): string[] => ticks.map((tick) => (tick === null ? "" : elapsed(tick)));

const MOMENT_STEPS = [...CLOCK_STEPS, ...DAY_STEPS];
const DURATION_STEPS = [0.001, 0.01, 0.1, ...MOMENT_STEPS];

const LABEL_GAP = 6;
const DIGIT_WIDTH = 7.2;
const LEAST_WIDTH = 48;

/** The width of the vertical axis: its longest label fits. */
export function labelWidth(_u: unknown, labels: readonly string[] | null): number {
  const longest = Math.max(0, ...(labels ?? []).map((label) => label?.length ?? 0));
  return Math.max(LEAST_WIDTH, Math.ceil(longest * DIGIT_WIDTH) + 2 * LABEL_GAP);
}

/** On a logarithmic x axis of more than two decades only powers of ten have labels. */
const logXTicks: uPlot.Axis.Filter = (u, ticks) => {
  const { min, max } = u.scales.x ?? {};
  const isShort = (max ?? 1) / (min ?? 1) < 100;
  return isShort ? ticks : ticks.map((tick) => (Number.isInteger(Math.round(Math.log10(tick) * 1e9) / 1e9) ? tick : null));
};

function axes({ isTime, isDuration, isLogX }: Plotted): uPlot.Axis[] {
  const common = {
    stroke: paint("--ink-faint"),
    grid: { stroke: paint("--chart-grid"), width: 1 },
    ticks: { show: false },
    font: canvasFont(),
  };
  const values = isTime ? clockTicks : isDuration ? durationTicks : countTicks;
  const incrs = isTime ? MOMENT_STEPS : isDuration ? DURATION_STEPS : undefined;
  return [
    { ...common, size: 26, gap: 4, space: isTime || isDuration ? 76 : 60, values, incrs, ...(isLogX ? { filter: logXTicks } : {}) },
    // A log axis leaves ticks unlabelled where there is no room.
    {
      ...common,
      size: labelWidth,
      gap: LABEL_GAP,
      space: 34,
      values: (_u, ticks) => ticks.map((tick) => (tick === null ? "" : number(tick))),
    },
  ];
}

const DASHES = [6, 4];

/** Where a line has no samples for long, so that it is not drawn. */
const gapsOf: uPlot.Series.GapsRefiner = (u, at, _from, _to, gaps) => {
  const place = (index: number) => Math.round(u.valToPos(u.data[0][index] as number, "x", true));
  for (const [from, to] of pauses(u.data[0], u.data[at] as Column)) gaps.push([place(from), place(to)]);
  return gaps.sort(([a], [b]) => a - b);
};

function series({ lines, band, steps, isScatter, isTime, isDuration }: Plotted): uPlot.Series[] {
  const hasPauses = isTime || isDuration;
  const edge = { stroke: "transparent", width: 0, points: { show: false } };
  const paths = isScatter ? () => null : steps ? uPlot.paths.stepped?.({ align: 1 }) : undefined;
  return [
    {},
    ...(band ? [edge, edge] : []),
    ...lines.map(
      (line): uPlot.Series => ({
        stroke: paint(`--chart-${line.role}`),
        width: line.thin ? 1 : 2,
        alpha: line.thin && line.entry ? 0.55 : 1,
        dash: line.dash ?? (line.dashed ? DASHES : undefined),
        points: {
          show: (u) => isScatter || (u.data[0]?.length ?? 0) < 3,
          filter: (u, at, areAllShown) => (areAllShown ? null : aloneIn(u.data[at] as Column, hasPauses ? u.data[0] : undefined)),
          size: 5,
        },
        ...(hasPauses ? { gaps: gapsOf } : {}),
        paths,
      }),
    ),
  ];
}

/** Values beyond this are drawn at the edge: uPlot divides by the extent of the axis. */
const MOST = Number.MAX_VALUE / 4;
const LEAST_COUNT = 4;
const LEAST_SECONDS = 5;

/** A minimum time span, so that the first samples do not stretch over the full width. */
export function atLeastSeconds(u: Pick<uPlot, "data">, low: number | null, high: number | null): uPlot.Range.MinMax {
  if (low === null || high === null) return [null, null];
  const [first, last] = [u.data[0]?.[0], u.data[0]?.at(-1)];
  // uPlot gives samples of one moment a whole day.
  if (first === last) return [low, low + LEAST_SECONDS];
  return [low, Math.max(high, low + LEAST_SECONDS)];
}

/** The range of the y axis: what the reader chose, else that of the values. */
function rangeOf(plotted: Plotted): uPlot.Range.Function {
  const { isLog, isClipped, low, high, band } = plotted;
  const automatic = valueRangeOf(plotted);
  return (u, lowest, highest, key) => {
    const shown = u.data.slice(band ? 3 : 1).filter((_, i) => u.series[i + (band ? 3 : 1)]?.show);
    const [least, most] = (isClipped && centralRange(shown as Column[])) || [lowest, highest];
    const [bottom, top] = automatic(u, least, most, key);
    const ends: uPlot.Range.MinMax = [isLog && (low ?? 1) <= 0 ? bottom : (low ?? bottom), high ?? top];
    return (ends[0] as number) < (ends[1] as number) ? ends : [bottom, top];
  };
}

/** The range of a logarithmic x axis begins at the first value above 0. */
const logXRange: uPlot.Range.Function = (u, low, high) => [low > 0 ? low : (u.data[0].find((x) => x > 0) ?? 0.1), Math.max(high, 1)];

function valueRangeOf({ floor, isLog, least = LEAST_COUNT, threshold }: Plotted): uPlot.Range.Function {
  // Keep the threshold visible even if no value reaches it; the extent must be a finite number.
  const withThreshold = (end: number, choose: typeof Math.min): number =>
    end === null ? end : Math.min(MOST, Math.max(-MOST, threshold === undefined ? end : choose(end, threshold)));
  return (_u, lowest, highest) => {
    const [low, high] = [withThreshold(lowest, Math.min), withThreshold(highest, Math.max)];
    if (isLog) return low === null || high === null || low <= 0 ? [0.1, 1] : uPlot.rangeLog(low, high, 10, false);
    const bottom = floor === undefined ? low : Math.min(floor, low);
    if (bottom === null || high === null) return [0, 1];
    // For counts near zero, show whole numbers rather than fractions.
    if (floor !== undefined && high - bottom < least) return [bottom, bottom + least];
    const room = (high - bottom || Math.abs(high) || 1) * 0.06;
    return [floor === undefined || low < floor ? bottom - room : bottom, high + room];
  };
}

/** Draw a line's markers, offset per line so that they do not overlap. */
function drawMarkers(u: uPlot, at: number, line: Line | undefined, place: number): void {
  if (!line?.marker || !u.series[at]?.show) return;
  const [from, to] = u.series[0]?.idxs ?? [0, -1];
  const ratio = uPlot.pxRatio;
  const every = MARKER_EVERY * ratio;
  const shape = new Path2D(SHAPES[line.marker]);
  const { ctx, data } = u;
  let next = u.bbox.left + (((place * 0.37) % 1) * every) / 2;
  ctx.save();
  ctx.globalAlpha = u.series[at].alpha ?? 1;
  ctx.fillStyle = paint(`--chart-${line.role}`);
  for (let i = from; i <= to; i += 1) {
    const value = data[at]?.[i];
    if (value === null || value === undefined) continue;
    const x = u.valToPos(data[0][i] as number, "x", true);
    if (x < next) continue;
    next = x + every;
    ctx.setTransform(MARKER_SIZE * ratio, 0, 0, MARKER_SIZE * ratio, x, u.valToPos(value, "y", true));
    ctx.fill(shape);
  }
  ctx.restore();
}

export type Watch = {
  onCursor: (plot: uPlot) => void;
  onNearest: (at: number | null) => void;
  /** The present marks, which change without a new plot. */
  marks: () => readonly Mark[];
};

/** The uPlot options of a chart; `lines` follow the two edges of a band. */
export function optionsOf(props: Plotted, width: number, watch: Watch): uPlot.Options {
  const { band, isTime, lines, sync, height = HEIGHT } = props;
  const first = band ? 3 : 1;
  const areMany = lines.length > MANY_LINES;
  return {
    width,
    height,
    legend: { show: false },
    ...(areMany ? { focus: { alpha: FAINT } } : {}),
    // Day boundaries depend on the user's time zone.
    ...(timeZone() ? { tzDate: (at: number) => uPlot.tzDate(new Date(at * 1000), timeZone() as string) } : {}),
    cursor: {
      y: false,
      points: { size: 6 },
      drag: { x: true, y: false },
      sync: sync ? { key: sync } : undefined,
      ...(areMany ? { focus: { prox: 24 } } : {}),
      // With several lines each shows its last value up to the cursor.
      dataIdx: (u, at, index) => (lines.length > 1 && at >= first ? indexAt(u.data[at] as Column, index) : index) as number,
    },
    scales: {
      x: props.isLogX ? { time: false, distr: 3, log: 10, range: logXRange } : { time: isTime, range: isTime ? atLeastSeconds : undefined },
      y: { range: rangeOf(props), ...(props.isLog ? { distr: 3, log: 10 } : {}) },
    },
    axes: axes(props),
    series: series(props),
    bands: [
      ...(band ? [{ series: [2, 1] as uPlot.Band.Bounds, fill: paint("--chart-band") }] : []),
      ...lines.flatMap(({ isFilled, role }, i) => {
        const bounds: uPlot.Band.Bounds = [first + i, first + i - 1];
        return isFilled ? [{ series: bounds, fill: paint(`--chart-${role}`) + FILL_ALPHA }] : [];
      }),
    ],
    hooks: {
      setCursor: [watch.onCursor],
      setSeries: areMany ? [(_u, at) => watch.onNearest(at === null ? null : at - first)] : [],
      drawAxes: [(u) => drawThreshold(u, props, uPlot.pxRatio)],
      drawSeries: [(u, at) => drawMarkers(u, at, lines[at - first], at - first)],
      draw: [(u) => drawMarks(u, watch.marks(), uPlot.pxRatio)],
    },
    // Room for half of the last tick's label.
    padding: [8, isTime || props.isDuration ? 26 : 12, 0, 0],
  };
}

export function columnsOf({ x, band, lines }: Plotted & { x: number[] }): uPlot.AlignedData {
  const edges = band ? [band.low, band.high] : [];
  return [x, ...edges, ...lines.map((line) => line.values)] as uPlot.AlignedData;
}
