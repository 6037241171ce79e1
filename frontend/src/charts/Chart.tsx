import "uplot/dist/uPlot.min.css";
import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import type { Column } from "@/charts/columns";
import { onClickedPoint, PointKeys } from "@/charts/picking";
import { clock, count, number } from "@/format";

export type Line = {
  label: string;
  values: Column;
  /** Colour role. */
  role: 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8;
  dashed?: boolean;
  thin?: boolean;
};

export type ChartProps = {
  /** What the chart shows, for those who cannot see it. */
  name: string;
  x: number[];
  isTime: boolean;
  xLabel: string;
  lines: Line[];
  band?: { low: Column; high: Column; label: string };
  height?: number;
  /** The y axis begins here however high the values are. */
  floor?: number;
  /** What the y axis shows at least, from its floor on: four, where whole things are counted. */
  least?: number;
  steps?: boolean;
  /** Charts with the same key share their cursor. */
  sync?: string;
  /** Somebody looks at a part (null: at all again), and whoever draws the chart fetches it. */
  onZoom?: (span: { from: number; to: number } | null) => void;
  /** Somebody chose a point, by its place in `x`: with a click, or with the keyboard. */
  onPick?: (index: number) => void;
  empty: string;
};

const paint = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function clockTicks(_u: uPlot, ticks: number[]): string[] {
  const fine = (ticks[1] ?? 60) - (ticks[0] ?? 0) < 60;
  return ticks.map((tick) =>
    new Date(tick * 1000).toLocaleTimeString([], {
      hour: "2-digit",
      minute: "2-digit",
      second: fine ? "2-digit" : undefined,
      hourCycle: "h23",
    }),
  );
}

function countTicks(_u: uPlot, ticks: number[]): string[] {
  return ticks.map((tick) => count(tick));
}

const CLOCK_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400];

function axes(isTime: boolean): uPlot.Axis[] {
  const common = {
    stroke: paint("--ink-faint"),
    grid: { stroke: paint("--chart-grid"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  return [
    { ...common, size: 26, gap: 4, space: isTime ? 76 : 60, values: isTime ? clockTicks : countTicks, incrs: isTime ? CLOCK_STEPS : undefined },
    { ...common, size: 48, gap: 6, space: 34, values: (_u, ticks) => ticks.map((tick) => number(tick)) },
  ];
}

function series({ lines, band, steps }: ChartProps): uPlot.Series[] {
  const edge = { stroke: "transparent", width: 0, points: { show: false } };
  const paths = steps ? uPlot.paths.stepped?.({ align: 1 }) : undefined;
  return [
    {},
    ...(band ? [edge, edge] : []),
    ...lines.map(
      (line): uPlot.Series => ({
        stroke: paint(`--chart-${line.role}`),
        width: line.thin ? 1 : 2,
        dash: line.dashed ? [6, 4] : undefined,
        points: { show: (u) => (u.data[0]?.length ?? 0) < 3, size: 5 },
        paths,
        spanGaps: true,
      }),
    ),
  ];
}

const LEAST_COUNT = 4;
const LEAST_SECONDS = 5;

/** The first moments of a chart are shown as moments, not stretched over all of it. */
function atLeastSeconds(_u: uPlot, low: number | null, high: number | null): uPlot.Range.MinMax {
  if (low === null || high === null) return [null, null];
  return [low, Math.max(high, low + LEAST_SECONDS)];
}

function options(props: ChartProps, width: number, onCursor: (plot: uPlot) => void): uPlot.Options {
  const { floor, band, isTime, sync, height = 220, least = LEAST_COUNT } = props;
  const range: uPlot.Range.Function = (_u, low, high) => {
    const bottom = floor === undefined ? low : Math.min(floor, low);
    if (bottom === null || high === null) return [0, 1];
    // Counts of nothing: whole numbers on the axis, not hundredths.
    if (floor !== undefined && high - bottom < least) return [bottom, bottom + least];
    const room = (high - bottom || Math.abs(high) || 1) * 0.06;
    return [floor === undefined || low < floor ? bottom - room : bottom, high + room];
  };
  return {
    width,
    height,
    legend: { show: false },
    cursor: {
      y: false,
      points: { size: 6 },
      drag: { x: true, y: false },
      sync: sync ? { key: sync } : undefined,
    },
    scales: { x: { time: isTime, range: isTime ? atLeastSeconds : undefined }, y: { range } },
    axes: axes(isTime),
    series: series(props),
    bands: band ? [{ series: [2, 1], fill: paint("--chart-band") }] : [],
    hooks: { setCursor: [onCursor] },
    // Room for half of the last tick's label.
    padding: [8, isTime ? 26 : 12, 0, 0],
  };
}

function columnsOf({ x, band, lines }: ChartProps): uPlot.AlignedData {
  const edges = band ? [band.low, band.high] : [];
  return [x, ...edges, ...lines.map((line) => line.values)] as uPlot.AlignedData;
}

type Tip = { index: number; left: number };

function TipBox({ tip, props, width }: { tip: Tip; props: ChartProps; width: number }) {
  const x = props.x[tip.index];
  if (x === undefined) return null;
  const side = tip.left > width / 2 ? { right: width - tip.left + 12 } : { left: tip.left + 62 };
  const low = props.band?.low[tip.index];
  const high = props.band?.high[tip.index];
  return (
    <div className="chart-tip" style={{ top: 8, ...side }} aria-hidden="true">
      <div className="faint">
        {props.isTime ? clock(new Date(x * 1000).toISOString()) : `${props.xLabel} ${number(x)}`}
      </div>
      {props.lines.map((line) => (
        <div key={line.label}>
          <span className="swatch" style={{ background: `var(--chart-${line.role})` }} /> {line.label}{" "}
          <b>{number(line.values[tip.index])}</b>
        </div>
      ))}
      {props.band && (
        <div className="faint">
          {props.band.label} {number(low)} – {number(high)}
        </div>
      )}
    </div>
  );
}

function useWidth(): [React.RefObject<HTMLDivElement | null>, number] {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!place.current) return;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    observer.observe(place.current);
    return () => observer.disconnect();
  }, []);
  return [place, width];
}

function summary({ name, lines, x }: ChartProps): string {
  const newest = lines.map((line) => `${line.label} ${number(line.values.at(-1))}`).join(", ");
  return `${name}: ${x.length} points; newest ${newest}`;
}

function pointText({ x, isTime, xLabel, lines }: ChartProps, index: number): string {
  const at = x[index];
  if (at === undefined) return "no point";
  const place = isTime ? clock(new Date(at * 1000).toISOString()) : `${xLabel} ${number(at)}`;
  return `${place}: ${lines.map((line) => `${line.label} ${number(line.values[index])}`).join(", ")}`;
}

/** The one chart of the deck: lines over time or counts, a min/max band, drag to zoom. */
export function Chart(props: ChartProps) {
  const [place, width] = useWidth();
  const plot = useRef<uPlot | null>(null);
  const zoom = useRef(props.onZoom);
  zoom.current = props.onZoom;
  const pick = useRef(props.onPick);
  pick.current = props.onPick;
  const [tip, setTip] = useState<Tip | null>(null);
  const [zoomed, setZoomed] = useState(false);
  const scheme = useComputedColorScheme("dark");
  const { height = 220 } = props;
  const shape = JSON.stringify([props.isTime, props.steps, !!props.band, props.lines.map((l) => [l.label, l.role])]);
  const drawn = props.lines.some((line) => line.values.some((value) => value !== null));
  const columns = useMemo(() => columnsOf(props), [props]);

  // biome-ignore lint: the plot is built anew only when its looks change; data follows below.
  useEffect(() => {
    if (!place.current || width === 0 || !drawn) return;
    const onCursor = (u: uPlot) => {
      const { idx, left } = u.cursor;
      setTip(idx === null || idx === undefined || (left ?? -1) < 0 ? null : { index: idx, left: left ?? 0 });
    };
    const built = new uPlot(options(props, width, onCursor), columns, place.current);
    built.over.addEventListener("mouseup", () => {
      const { left, width: wide } = built.select;
      if (!zoom.current) setZoomed(wide > 0);
      else if (wide > 0) zoom.current({ from: Math.max(0, built.posToVal(left, "x")), to: built.posToVal(left + wide, "x") });
    });
    built.over.addEventListener("dblclick", () => {
      setZoomed(false);
      zoom.current?.(null);
    });
    onClickedPoint(built, (index) => pick.current?.(index));
    plot.current = built;
    return () => {
      built.destroy();
      plot.current = null;
    };
  }, [shape, scheme, drawn, width, height]);

  useEffect(() => {
    // Fresh numbers never move what somebody zoomed into.
    plot.current?.setData(columns, !zoomed);
    if (zoomed) plot.current?.redraw(true, true);
  }, [columns, zoomed]);

  const moveTo = (index: number) => {
    const x = props.x[index];
    plot.current?.setCursor(x === undefined ? { left: -10, top: -10 } : { left: plot.current.valToPos(x, "x"), top: 1 });
  };
  const figure = (
    <div ref={place} className="chart" style={{ height }} role="img" aria-label={summary(props)} data-points={props.x.length}>
      {!drawn && (
        <div className="chart-none" style={{ height }}>
          {props.empty}
        </div>
      )}
      {drawn && tip && <TipBox tip={tip} props={props} width={width} />}
    </div>
  );
  if (!props.onPick) return figure;
  return (
    <div className="chart-frame">
      {figure}
      {drawn && <PointKeys name={props.name} points={props.x.length} textOf={(index) => pointText(props, index)} onMove={moveTo} onChoose={props.onPick} />}
    </div>
  );
}
