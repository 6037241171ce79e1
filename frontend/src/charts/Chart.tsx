/** The chart component: legend, ends of the axes, and the uPlot instance. */

import "uplot/dist/uPlot.min.css";
import { Center, Group, NumberInput, Select, UnstyledButton, useComputedColorScheme, VisuallyHidden } from "@mantine/core";
import { useDebouncedCallback, useElementSize, useMergedRef } from "@mantine/hooks";
import {
  type ComponentProps,
  type MouseEvent,
  type ReactNode,
  type Ref,
  type RefObject,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import uPlot from "uplot";
import { ChartTools } from "@/charts/ChartTools";
import type { Column } from "@/charts/columns";
import { Swatch, styleText } from "@/charts/lineStyles";
import { type ChartLook, lookOf, lookText } from "@/charts/look";
import { type ChartProps, type Controlled, HEIGHT, type Line, MANY_LINES, type Plotted, type Range } from "@/charts/model";
import { isolated, toggled } from "@/charts/names";
import { columnsOf, marksAt, marksIn, optionsOf } from "@/charts/plot";
import { entryOf, isShown, summaryAt } from "@/charts/sheet";
import { onClickedPoint, PointKeys, placeName, type Tip, TipBox } from "@/charts/TipBox";
import { Dialog } from "@/components/Dialog";
import { counted, number } from "@/format";
import { SharingContext } from "@/share/focus";
import { chartOf, chartTarget } from "@/share/share";
import css from "./chart.module.css";

const HINT = "Click to hide or show; Shift and click, or Shift and Enter, to show it alone";

type EntryProps = {
  look: ComponentProps<typeof Swatch>["look"];
  entry: string;
  /** All entries of the legend. */
  entries: readonly string[];
  hidden: Controlled<readonly string[]>;
  "aria-label"?: string;
  children?: ReactNode;
};

/** An entry of a legend: a click hides or shows its lines, or shows them alone. */
export function LegendEntry({ look, entry, entries, hidden, children, ...rest }: EntryProps) {
  const change = (event: MouseEvent) =>
    hidden.change(event.shiftKey ? isolated(entries, hidden.value, entry) : toggled(hidden.value, entry));
  return (
    <UnstyledButton
      className={css.entry}
      aria-pressed={!hidden.value.includes(entry)}
      title={`${styleText(look)}. ${HINT}`}
      onClick={change}
      {...rest}
    >
      <Swatch look={look} />
      {children}
    </UnstyledButton>
  );
}

/** The newest value of a line; none before the first sample. */
function newestOf(line: Line): string {
  const newest = line.values.findLast((value) => typeof value === "number");
  return newest === undefined || newest === null ? "" : number(newest);
}

type LegendProps = {
  lines: Line[];
  hidden: Controlled<readonly string[]>;
  /** Label of the band, if there is one. */
  band?: string;
};

/** The legend: each entry toggles its line, or shows it alone. */
export function Legend({ lines, hidden, band }: LegendProps) {
  // The last line of an entry is the prominent one.
  const entries = new Map(lines.map((line) => [entryOf(line), line]));
  // Its value is that of the samples, which have the name of the entry, before a line that is derived from them.
  const sampled = new Map(lines.filter((line) => line.label === entryOf(line)).map((line) => [line.label, line]));
  return (
    <Group gap="0 0.35rem" pt={5} ml={-6} role="group" aria-label="Lines">
      {[...entries].map(([entry, line]) => (
        <LegendEntry key={entry} look={line} entry={entry} entries={[...entries.keys()]} hidden={hidden}>
          <span>{entry}</span>
          <b>{newestOf(sampled.get(entry) ?? line)}</b>
        </LegendEntry>
      ))}
      {band && (
        <span className={css.entry}>
          <span className={`${css.swatch} ${css.band}`} aria-hidden="true" />
          <span>{band}</span>
        </span>
      )}
    </Group>
  );
}

const TYPING_MS = 250;
const OPTIONS_AT_MOST = 100;

type LookFieldsProps = {
  look: ChartLook;
  change: (more: ChartLook) => void;
  xLabel: string;
  /** Metrics that the x axis can be; absent if it has one axis only. */
  xChoices?: readonly string[];
};

/** The axes of an enlarged chart. */
function LookFields({ look, change, xLabel, xChoices }: LookFieldsProps) {
  const changeEnds = useDebouncedCallback(change, TYPING_MS);
  const end = (key: "low" | "high", label: string) => (
    <NumberInput
      size="xs"
      w="8rem"
      label={label}
      placeholder="automatic"
      hideControls
      defaultValue={look[key] ?? ""}
      onChange={(value) => changeEnds({ [key]: typeof value === "number" ? value : undefined })}
    />
  );
  return (
    <Group align="end" pb="sm">
      {end("low", "From")}
      {end("high", "To")}
      {xChoices && (
        <Select
          size="xs"
          label="X axis"
          placeholder={look.x ? undefined : xLabel}
          searchable
          clearable
          clearButtonProps={{ "aria-label": "Reset the x axis" }}
          limit={OPTIONS_AT_MOST}
          data={[...new Set([...(look.x ? [look.x] : []), ...xChoices])]}
          value={look.x ?? null}
          nothingFoundMessage="No such metric."
          onChange={(x) => change({ x: x ?? undefined, isLogX: undefined })}
        />
      )}
    </Group>
  );
}

type PlotState = {
  place: Ref<HTMLDivElement>;
  plot: RefObject<uPlot | null>;
  width: number;
  tip: Tip | null;
  /** The last cursor index. */
  lastIndex: RefObject<number | null>;
  /** With many lines, the label of the one nearest to the pointer. */
  nearest: string | null;
};

type PlotOptions = {
  plotted: Plotted & { x: number[] };
  hidden: readonly string[];
  hasPoints: boolean;
  onZoom?: (range: Range | null) => void;
  onPick?: (index: number) => void;
};

/** The properties whose change requires a new plot. */
function shapeOf({ plotted, hidden }: PlotOptions): string {
  const { isTime, isDuration, steps, isScatter, band, isLog, isLogX, isClipped, low, high, lines, threshold } = plotted;
  const looks = lines.map((line) => [
    line.label,
    line.role,
    line.dash,
    line.dashed,
    line.marker,
    line.thin,
    line.isFilled,
    isShown(line, hidden),
  ]);
  return JSON.stringify([isTime, isDuration, steps, isScatter, !!band, isLog, isLogX, isClipped, low, high, looks, threshold]);
}

/** With many lines only the hovered or focused chart lists values; the others show the cursor only. */
function isLookedAt(place: HTMLElement | null, lines: number): boolean {
  return lines <= MANY_LINES || (place?.parentElement?.matches(":hover, :focus-within") ?? false);
}

export function usePlot(asked: PlotOptions): PlotState {
  const { plotted, hidden, hasPoints } = asked;
  const { lines, height = HEIGHT } = plotted;
  const place = useRef<HTMLDivElement>(null);
  const { ref: sized, width: exactWidth } = useElementSize<HTMLDivElement>();
  const width = Math.floor(exactWidth);
  const plot = useRef<uPlot | null>(null);
  // Read by handlers of a plot that outlives the render that built it.
  const now = useRef(asked);
  now.current = asked;
  const marks = () => now.current.plotted.marks ?? [];
  /** Where the cursor was last. */
  const cursor = useRef<{ left: number; top: number } | null>(null);
  const [tip, setTip] = useState<Tip | null>(null);
  const [nearest, setNearest] = useState<number | null>(null);
  const [zoomed, setZoomed] = useState(false);
  const lastIndex = useRef<number | null>(null);
  const scheme = useComputedColorScheme("dark");
  const columns = useMemo(() => columnsOf(plotted), [plotted]);

  // Rebuild the plot only when its style changes; data updates follow below.
  useEffect(() => {
    if (!place.current || width === 0 || !hasPoints) return;
    const onCursor = (u: uPlot) => {
      const { idx, left = -1, top = -1 } = u.cursor;
      const isAway = idx === null || idx === undefined || left < 0 || !isLookedAt(place.current, lines.length);
      setTip(isAway ? null : { index: idx, left, marks: marksAt(marksIn(u, marks()), left, (x) => u.valToPos(x, "x")) });
      cursor.current = isAway ? null : { left, top };
      if (!isAway) lastIndex.current = idx;
    };
    const built = new uPlot(optionsOf(plotted, width, { onCursor, onNearest: setNearest, marks }), columns, place.current);
    lines.forEach((line, i) => {
      if (!isShown(line, hidden)) built.setSeries(i + (plotted.band ? 3 : 1), { show: false }, false);
    });
    built.over.addEventListener("mouseup", () => {
      const { left, width: wide } = built.select;
      const { onZoom } = now.current;
      if (!onZoom) setZoomed(wide > 0);
      // Only elapsed time has x values below 0.
      else if (wide > 0)
        onZoom({
          from: Math.max(plotted.isDuration ? -Infinity : 0, built.posToVal(left, "x")),
          to: built.posToVal(left + wide, "x"),
        });
    });
    built.over.addEventListener("dblclick", () => {
      setZoomed(false);
      now.current.onZoom?.(null);
    });
    onClickedPoint(built, (index) => now.current.onPick?.(index));
    plot.current = built;
    // A new plot has no cursor until the pointer moves; uPlot places it once its scales are known.
    const before = cursor.current;
    if (before) queueMicrotask(() => plot.current === built && built.setCursor(before));
    return () => {
      built.destroy();
      plot.current = null;
    };
  }, [shapeOf(asked), scheme, hasPoints, width, height]);

  useEffect(() => {
    // New data never changes a zoomed view.
    plot.current?.setData(columns, !zoomed);
    if (zoomed) plot.current?.redraw(true, true);
  }, [columns, zoomed, plotted.marks]);

  return {
    place: useMergedRef(place, sized),
    plot,
    width,
    tip,
    lastIndex,
    nearest: nearest === null ? null : (lines[nearest]?.label ?? null),
  };
}

function summary({ name, lines, x }: ChartProps): string {
  const newest = lines.map((line) => `${line.label} ${number(line.values.findLast((value) => value !== undefined))}`).join(", ");
  return `${name}: ${counted(x.length, "point")}; newest ${newest}`;
}

type Seen = { plotted: Plotted & { x: number[] }; left: number };

/** The visible parts of a chart: no band of a hidden line, on a log axis no value <= 0; and the number of those. */
function seenOf(chart: ChartProps, look: ChartLook, hidden: readonly string[]): Seen {
  const first = chart.lines[0];
  const band = first && isShown(first, hidden) ? chart.band : undefined;
  const { isLarge: _, x: _x, hidden: _hidden, ...axes } = look;
  const isLeft = (value: Column[number]) => look.isLog === true && typeof value === "number" && value <= 0;
  const shown = chart.lines.filter((line) => isShown(line, hidden));
  const left = shown.reduce((sum, { values }) => sum + values.filter(isLeft).length, 0);
  const above = (values: Column): Column => (look.isLog ? values.map((value) => (isLeft(value) ? null : value)) : values);
  const lines = chart.lines.map((line) => ({ ...line, values: above(line.values) }));
  const edges = band && { ...band, low: above(band.low), high: above(band.high) };
  return { plotted: { ...chart, ...axes, isLogX: look.isLogX && !chart.isTime, lines, band: edges }, left };
}

function emptyText({ left, isHidden, empty }: { left: number; isHidden: boolean; empty: string }): string {
  if (left > 0) return "No values above 0 to show on a log axis.";
  return isHidden ? "All lines are hidden." : empty;
}

/** State of a chart, shared by its place on the page and the enlarged one. */
type Shown = {
  look: ChartLook;
  onLook: (more: ChartLook) => void;
  hidden: Controlled<readonly string[]>;
  onLink?: () => void;
};

const LARGE_SHARE = 0.62;

const NONE: readonly string[] = [];

/** The look of the chart at a place: part of the address where charts have links, else its own state. */
export function useChartLook(target: string): { look: ChartLook; change: (more: ChartLook) => void } {
  const sharing = useContext(SharingContext);
  const name = chartOf(target) ?? target;
  const [own, setOwn] = useState<string>();
  const text = sharing ? sharing.looks?.[name] : own;
  const look = useMemo(() => lookOf(text), [text]);
  const change = (more: ChartLook) => {
    const changed = lookText({ ...look, ...more });
    if (sharing) sharing.setLook(name, changed);
    else setOwn(changed);
  };
  return { look, change };
}

/** The chart component: lines over time or counts, a min/max band, drag to zoom, a menu; can be enlarged. */
export function Chart(chart: ChartProps) {
  const sharing = useContext(SharingContext);
  const target = chart.target ?? chartTarget(chart.name);
  const { look, change: onLook } = useChartLook(target);
  const hidden = chart.hidden ?? { value: look.hidden ?? NONE, change: (names: readonly string[]) => onLook({ hidden: names }) };
  const onLink = () => sharing?.copy(target);
  const shown: Shown = { look, onLook, hidden, onLink: sharing ? onLink : undefined };
  const close = () => onLook({ isLarge: undefined });
  return (
    <>
      <Drawing chart={chart} shown={{ ...shown, look: { ...look, isLarge: undefined } }} target={chart.target ? undefined : target} />
      {look.isLarge && (
        <Dialog onClose={close} title={chart.name} size="92%" centered>
          <LookFields look={look} change={onLook} xLabel={chart.xLabel} xChoices={chart.xChoices} />
          <Drawing
            chart={{
              ...chart,
              height: Math.round(window.innerHeight * LARGE_SHARE),
              onPick:
                chart.onPick &&
                ((index) => {
                  close();
                  chart.onPick?.(index);
                }),
            }}
            shown={shown}
          />
        </Dialog>
      )}
    </>
  );
}

type DrawingProps = { chart: ChartProps; shown: Shown; target?: string };

function Drawing({ chart, shown: { look, onLook, hidden, onLink }, target }: DrawingProps) {
  const { x, height = HEIGHT } = chart;
  const [announcement, setAnnouncement] = useState("");
  const words = JSON.stringify(look);
  const { plotted, left } = useMemo(() => seenOf(chart, look, hidden.value), [chart, words, hidden.value]);
  const shown = plotted.lines.filter((line) => isShown(line, hidden.value));
  const hasPoints = shown.some((line) => line.values.some((value) => typeof value === "number"));
  const { place, plot, width, tip, lastIndex, nearest } = usePlot({
    plotted,
    hidden: hidden.value,
    hasPoints,
    onZoom: chart.onZoom,
    onPick: chart.onPick,
  });
  const hasLegend = chart.hasLegend ?? new Set(chart.lines.map(entryOf)).size > 1;
  const isHidden = shown.length < chart.lines.length && x.length > 0;

  const copyLink = () => {
    onLink?.();
    setAnnouncement("Link copied.");
  };
  const moveTo = (index: number) => {
    const at = x[index];
    plot.current?.setCursor(at === undefined ? { left: -10, top: -10 } : { left: plot.current.valToPos(at, "x"), top: 1 });
  };
  return (
    <div className={css.box} data-pickable={chart.onPick ? true : undefined} data-target={target}>
      <div className={css.plot}>
        <div
          ref={place}
          className={css.chart}
          style={{ height }}
          role="img"
          aria-label={summary(chart)}
          data-points={x.length}
          data-marks={chart.marks?.length}
        >
          {!hasPoints && (
            <Center h={height} c="var(--ink-faint)" ta="center">
              {emptyText({ left, isHidden, empty: chart.empty })}
            </Center>
          )}
          {hasPoints && tip && <TipBox tip={tip} chart={{ ...chart, lines: shown, band: plotted.band }} width={width} nearest={nearest} />}
        </div>
        {hasPoints && (
          <PointKeys
            name={chart.name}
            points={x.length}
            textOf={(index) => `${placeName(chart, x[index] ?? 0)}: ${summaryAt(chart, index, hidden.value)}`}
            onMove={moveTo}
            onChoose={chart.onPick}
          />
        )}
      </div>
      {x.length > 0 && (
        <ChartTools
          chart={chart}
          plot={plot}
          look={look}
          onLook={onLook}
          hidden={hidden.value}
          lastIndex={lastIndex}
          onLink={onLink && copyLink}
        />
      )}
      {left > 0 && <p className="tiny held">▲ {counted(left, "value")} at or below 0 omitted on the log axis</p>}
      {hasLegend && (x.length > 0 || chart.isLegendKept) && <Legend lines={chart.lines} hidden={hidden} band={plotted.band?.label} />}
      <VisuallyHidden aria-live="polite">{announcement}</VisuallyHidden>
    </div>
  );
}
