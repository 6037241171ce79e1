/** The data and options of a chart. */

import type { Column } from "@/charts/columns";
import type { LineStyle } from "@/charts/lineStyles";
import type { ChartLook } from "@/charts/look";

export type Controlled<T> = { value: T; change: (value: T) => void };

export type Line = {
  label: string;
  values: Column;
  /** Colour role. */
  role: LineStyle["role"];
  /** True for the default dash pattern. */
  dashed?: boolean;
  dash?: number[];
  marker?: LineStyle["marker"];
  thin?: boolean;
  /** Lines with the same name share a legend entry; defaults to the label. */
  entry?: string;
  /** Whether the area between this line and the one before it is filled. */
  isFilled?: boolean;
};

/** A labelled x position: a user's note, an event, or a published version. */
export type Mark = { x: number; text: string; role: "note" | "event" | "version" };
export type Range = { from: number; to: number };

export type Marked = {
  marks?: readonly Mark[];
  /** A reference level on the y axis. */
  threshold?: number;
};

export type Plotted = Marked & {
  isTime: boolean;
  /** X values are seconds since a start, not Unix time. */
  isDuration?: boolean;
  lines: Line[];
  band?: { low: Column; high: Column; label: string };
  height?: number;
  /** Minimum of the y axis, regardless of the values. */
  floor?: number;
  /** Minimum extent of the y axis above the floor; 4 for counts of whole items. */
  least?: number;
  steps?: boolean;
  isLog?: boolean;
  isLogX?: boolean;
  /** Whether points are drawn without lines between them. */
  isScatter?: boolean;
  /** Whether the y axis leaves out the extreme values. */
  isClipped?: boolean;
  /** Chosen ends of the y axis. */
  low?: number;
  high?: number;
  /** Charts with the same key share their cursor. */
  sync?: string;
};

export type Cell = string | number | null | undefined;
/** A chart's data as rows. */
export type Sheet = {
  head: string[];
  rows: Cell[][];
  /** Index of the column that holds the x value. */
  place: number;
};

/** An entry of a chart's menu; receives the last cursor index, null if there was none. */
export type ChartAction = { label: string; act: (index: number | null) => void };

export type ChartProps = Omit<Plotted, Exclude<keyof ChartLook, "x">> & {
  /** Accessible name of the chart. */
  name: string;
  x: number[];
  xLabel: string;
  /** The visible x range changed (null: all); the owner of the chart fetches the data. */
  onZoom?: (range: Range | null) => void;
  /** A point was chosen, by index into `x`, with a click or the keyboard. */
  onPick?: (index: number) => void;
  /** Its place in links, if an element around it has that place; the name by default. */
  target?: string;
  /** Further actions of the chart's menu. */
  actions?: readonly ChartAction[];
  empty: string;
  /** Metrics that the x axis can be, in the menu of the chart; absent where it has one axis only. */
  xChoices?: readonly string[];
  /** Hidden entries that charts share; without it they are part of the chart's look. */
  hidden?: Controlled<readonly string[]>;
  /** Contents of files and the table, if they differ from the plotted data. */
  sheet?: (range: Range) => Sheet;
  /** Whether a legend is shown; defaults to true for several lines. */
  hasLegend?: boolean;
  /** Whether the legend is shown before there are points, so that the layout does not shift. */
  isLegendKept?: boolean;
};

export const HEIGHT = 220;
/** Above this number of lines the one nearest to the pointer is highlighted. */
export const MANY_LINES = 4;
