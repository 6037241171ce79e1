/** The uPlot instance of a chart: rebuilt when its style changes, updated when its data changes. */

import { useComputedColorScheme } from "@mantine/core";
import { type RefObject, useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import { marksAt, marksIn } from "@/charts/marks";
import { HEIGHT, MANY_LINES, type Plotted, type Range } from "@/charts/model";
import { onClickedPoint } from "@/charts/picking";
import { columnsOf, optionsOf } from "@/charts/plot";
import { isShown } from "@/charts/sheet";
import type { Tip } from "@/charts/TipBox";

type PlotState = {
  place: RefObject<HTMLDivElement | null>;
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

function useWidth(): [RefObject<HTMLDivElement | null>, number] {
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

/** The properties whose change requires a new plot. */
function shapeOf({ plotted, hidden }: PlotOptions): string {
  const { isTime, isDuration, steps, isScatter, band, isLog, isLogX, isClipped, low, high, lines, marks, threshold } = plotted;
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
  return JSON.stringify([isTime, isDuration, steps, isScatter, !!band, isLog, isLogX, isClipped, low, high, looks, marks, threshold]);
}

/** With many lines only the hovered or focused chart lists values; the others show the cursor only. */
function isLookedAt(place: HTMLElement | null, lines: number): boolean {
  return lines <= MANY_LINES || (place?.parentElement?.matches(":hover, :focus-within") ?? false);
}

export function usePlot(asked: PlotOptions): PlotState {
  const { plotted, hidden, hasPoints } = asked;
  const { lines, height = HEIGHT } = plotted;
  const [place, width] = useWidth();
  const plot = useRef<uPlot | null>(null);
  const zoom = useRef(asked.onZoom);
  zoom.current = asked.onZoom;
  const pick = useRef(asked.onPick);
  pick.current = asked.onPick;
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
      const { idx, left = -1 } = u.cursor;
      const isAway = idx === null || idx === undefined || left < 0 || !isLookedAt(place.current, lines.length);
      setTip(isAway ? null : { index: idx, left, marks: marksAt(marksIn(u, plotted.marks ?? []), left, (x) => u.valToPos(x, "x")) });
      if (!isAway) lastIndex.current = idx;
    };
    const built = new uPlot(optionsOf(plotted, width, { onCursor, onNearest: setNearest }), columns, place.current);
    lines.forEach((line, i) => {
      if (!isShown(line, hidden)) built.setSeries(i + (plotted.band ? 3 : 1), { show: false }, false);
    });
    built.over.addEventListener("mouseup", () => {
      const { left, width: wide } = built.select;
      if (!zoom.current) setZoomed(wide > 0);
      // Only elapsed time has x values below 0.
      else if (wide > 0)
        zoom.current({
          from: Math.max(plotted.isDuration ? -Infinity : 0, built.posToVal(left, "x")),
          to: built.posToVal(left + wide, "x"),
        });
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
  }, [shapeOf(asked), scheme, hasPoints, width, height]);

  useEffect(() => {
    // New data never changes a zoomed view.
    plot.current?.setData(columns, !zoomed);
    if (zoomed) plot.current?.redraw(true, true);
  }, [columns, zoomed]);

  return { place, plot, width, tip, lastIndex, nearest: nearest === null ? null : (lines[nearest]?.label ?? null) };
}

/** Copy the values under the pointer on the copy shortcut, unless text is selected. */
export function useCopying(text: (() => string) | null): void {
  const current = useRef(text);
  current.current = text;
  const isOn = text !== null;
  useEffect(() => {
    if (!isOn) return;
    const put = (event: ClipboardEvent) => {
      if (!current.current || !getSelection()?.isCollapsed) return;
      event.clipboardData?.setData("text/plain", current.current());
      event.preventDefault();
    };
    document.addEventListener("copy", put);
    return () => document.removeEventListener("copy", put);
  }, [isOn]);
}
