import "uplot/dist/uPlot.min.css";
import { useContext, useMemo, useState } from "react";
import { ChartTools } from "@/charts/ChartTools";
import { useControllableState } from "@/charts/controllableState";
import { Legend } from "@/charts/Legend";
import { type ChartProps, HEIGHT, type Plotted } from "@/charts/model";
import { PointKeys } from "@/charts/picking";
import { copyText } from "@/charts/save";
import { aboveZero, entryOf, isShown, summaryAt, textAt } from "@/charts/sheet";
import { placeName, TipBox } from "@/charts/TipBox";
import { useCopying, usePlot } from "@/charts/usePlot";
import { counted, number } from "@/format";
import { SharingContext } from "@/share/focus";
import { chartTarget } from "@/share/share";

function summary({ name, lines, x }: ChartProps): string {
  const newest = lines.map((line) => `${line.label} ${number(line.values.findLast((value) => value !== undefined))}`).join(", ");
  return `${name}: ${x.length} points; newest ${newest}`;
}

type Seen = { plotted: Plotted & { x: number[] }; left: number };

/** The visible parts of a chart: no band of a hidden line, on a log axis no value <= 0. */
function seenOf(chart: ChartProps, isLog: boolean, hidden: readonly string[]): Seen {
  const first = chart.lines[0];
  const band = first && isShown(first, hidden) ? chart.band : undefined;
  if (!isLog) return { plotted: { ...chart, band, isLog }, left: 0 };
  const shown = aboveZero(chart.lines.filter((line) => isShown(line, hidden)).map((line) => line.values));
  const lines = chart.lines.map((line) => ({ ...line, values: aboveZero([line.values]).columns[0] ?? [] }));
  const [low = [], high = []] = band ? aboveZero([band.low, band.high]).columns : [];
  return { plotted: { ...chart, lines, band: band && { ...band, low, high }, isLog }, left: shown.left };
}

function emptyText({ left, isHidden, empty }: { left: number; isHidden: boolean; empty: string }): string {
  if (left > 0) return "No values above 0 to show on a log axis.";
  return isHidden ? "All lines are hidden." : empty;
}

/** The chart component: lines over time or counts, a min/max band, drag to zoom, a menu. */
export function Chart(chart: ChartProps) {
  const { x, height = HEIGHT } = chart;
  const [announcement, setAnnouncement] = useState("");
  const sharing = useContext(SharingContext);
  const target = chart.target ?? chartTarget(chart.name);
  const opened = sharing?.opened.focus === target ? sharing.opened : undefined;
  const isLog = useControllableState(chart.isLog, opened?.scale === "log");
  const hidden = useControllableState<readonly string[]>(chart.hidden, opened?.hide ?? []);
  const { plotted, left } = useMemo(() => seenOf(chart, isLog.value, hidden.value), [chart, isLog.value, hidden.value]);
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
    const scale = !chart.isLog && isLog.value ? "log" : undefined;
    const hide = !chart.hidden && hidden.value.length > 0 ? [...hidden.value] : undefined;
    sharing?.copy({ focus: target, hide, scale });
    setAnnouncement("Link copied.");
  };
  useCopying(tip && place.current?.matches(":hover") ? () => textAt(chart, tip.index, hidden.value) : null);
  const moveTo = (index: number) => {
    const at = x[index];
    plot.current?.setCursor(at === undefined ? { left: -10, top: -10 } : { left: plot.current.valToPos(at, "x"), top: 1 });
  };
  return (
    <div className="chart-box" data-pickable={chart.onPick ? true : undefined} data-target={chart.target ? undefined : target}>
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
          isLog={isLog}
          hidden={hidden.value}
          lastIndex={lastIndex}
          onCopy={copy}
          onLink={sharing ? copyLink : undefined}
        />
      )}
      {left > 0 && <p className="chart-left-out tiny held">▲ {counted(left, "value")} at or below 0 omitted on the log axis</p>}
      {hasLegend && (x.length > 0 || chart.isLegendKept) && (
        <Legend lines={chart.lines} hidden={hidden} names={chart.names} band={plotted.band?.label} />
      )}
      <span className="unseen" aria-live="polite">
        {announcement}
      </span>
    </div>
  );
}
