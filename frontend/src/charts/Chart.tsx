import { Dialog } from "@/components/Dialog";
import "uplot/dist/uPlot.min.css";
import { useContext, useMemo, useState } from "react";
import { ChartTools } from "@/charts/ChartTools";
import type { Column } from "@/charts/columns";
import type { Controlled } from "@/charts/controllableState";
import { Legend } from "@/charts/Legend";
import { LookFields } from "@/charts/LookFields";
import { type ChartLook, lookOf, lookText } from "@/charts/look";
import { type ChartProps, HEIGHT, type Plotted } from "@/charts/model";
import { PointKeys } from "@/charts/picking";
import { copyText } from "@/charts/save";
import { aboveZero, entryOf, isShown, summaryAt, textAt } from "@/charts/sheet";
import { placeName, TipBox } from "@/charts/TipBox";
import { useCopying, usePlot } from "@/charts/usePlot";
import { counted, number } from "@/format";
import { SharingContext } from "@/share/focus";
import { chartOf, chartTarget } from "@/share/share";

function summary({ name, lines, x }: ChartProps): string {
  const newest = lines.map((line) => `${line.label} ${number(line.values.findLast((value) => value !== undefined))}`).join(", ");
  return `${name}: ${x.length} points; newest ${newest}`;
}

type Seen = { plotted: Plotted & { x: number[] }; left: number };

/** The visible parts of a chart: no band of a hidden line, on a log axis no value or place <= 0. */
function seenOf(chart: ChartProps, look: ChartLook, hidden: readonly string[]): Seen {
  const first = chart.lines[0];
  const band = first && isShown(first, hidden) ? chart.band : undefined;
  const { isLarge: _, x: _x, hidden: _hidden, ...axes } = look;
  const isLogX = look.isLogX && !chart.isTime;
  const placed = (values: Column): Column => (isLogX ? values.map((value, i) => ((chart.x[i] ?? 0) > 0 ? value : null)) : values);
  const ofY = (values: Column): Column => (look.isLog ? (aboveZero([values]).columns[0] ?? []) : values);
  const shown = look.isLog ? aboveZero(chart.lines.filter((line) => isShown(line, hidden)).map((line) => line.values)) : { left: 0 };
  const lines = chart.lines.map((line) => ({ ...line, values: placed(ofY(line.values)) }));
  const edges = band && { ...band, low: placed(ofY(band.low)), high: placed(ofY(band.high)) };
  return { plotted: { ...chart, ...axes, isLog: look.isLog, isLogX, lines, band: edges }, left: shown.left };
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
          <LookFields look={look} change={onLook} hasLogX={!chart.isTime} xLabel={chart.xLabel} xChoices={chart.xChoices} />
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

  const copy = (index: number) => {
    copyText(textAt(chart, index, hidden.value));
    setAnnouncement("Copied.");
  };
  const copyLink = () => {
    onLink?.();
    setAnnouncement("Link copied.");
  };
  useCopying(tip && place.current?.matches(":hover") ? () => textAt(chart, tip.index, hidden.value) : null);
  const moveTo = (index: number) => {
    const at = x[index];
    plot.current?.setCursor(at === undefined ? { left: -10, top: -10 } : { left: plot.current.valToPos(at, "x"), top: 1 });
  };
  return (
    <div className="chart-box" data-pickable={chart.onPick ? true : undefined} data-target={target}>
      <div className="chart-plot">
        <div
          ref={place}
          className="chart"
          style={{ height }}
          role="img"
          aria-label={summary(chart)}
          data-points={x.length}
          data-marks={chart.marks?.length}
        >
          {!hasPoints && (
            <div className="chart-none" style={{ height }}>
              {emptyText({ left, isHidden, empty: chart.empty })}
            </div>
          )}
          {hasPoints && tip && <TipBox tip={tip} chart={{ ...chart, lines: shown, band: plotted.band }} width={width} nearest={nearest} />}
        </div>
        {hasPoints && (
          <PointKeys
            name={chart.name}
            points={x.length}
            textOf={(index) => `${placeName(chart, x[index] ?? 0)}: ${summaryAt(chart, index, hidden.value)}`}
            onMove={moveTo}
            onCopy={copy}
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
          onCopy={copy}
          onLink={onLink && copyLink}
        />
      )}
      {left > 0 && <p className="chart-left-out tiny held">▲ {counted(left, "value")} at or below 0 omitted on the log axis</p>}
      {hasLegend && (x.length > 0 || chart.isLegendKept) && <Legend lines={chart.lines} hidden={hidden} band={plotted.band?.label} />}
      <span className="unseen" aria-live="polite">
        {announcement}
      </span>
    </div>
  );
}
