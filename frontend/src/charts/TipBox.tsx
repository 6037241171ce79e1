/** Points of a chart: the values under the cursor, and their choice. */

import { Group, Paper, Space, Text } from "@mantine/core";
import { useState } from "react";
import type uPlot from "uplot";
import { Swatch } from "@/charts/lineStyles";
import { type ChartProps, MANY_LINES, type Mark } from "@/charts/model";
import { momentName } from "@/charts/plot";
import { valueAt } from "@/charts/sheet";
import { elapsed, number, timeZone, visible } from "@/format";
import css from "./chart.module.css";

/** A second click within this time is a double click, which zooms out. */
const DOUBLE_CLICK_MS = 220;
/** Pointer movement up to this distance is a click; beyond it, a drag. */
const SLIP_PX = 4;

/** Call `choose` with the index of the clicked point; drags and double clicks are ignored. */
export function onClickedPoint(plot: uPlot, choose: (index: number) => void): void {
  let pressedAt = 0;
  let timer = 0;
  plot.over.addEventListener("mousedown", (event) => {
    pressedAt = event.clientX;
    window.clearTimeout(timer);
  });
  plot.over.addEventListener("click", (event) => {
    const index = plot.cursor.idx;
    if (event.detail > 1 || Math.abs(event.clientX - pressedAt) > SLIP_PX || index === null || index === undefined) return;
    timer = window.setTimeout(() => choose(index), DOUBLE_CLICK_MS);
  });
}

type Props = {
  name: string;
  points: number;
  textOf: (index: number) => string;
  onMove: (index: number) => void;
  /** Absent for charts whose points cannot be chosen. */
  onChoose?: (index: number) => void;
};

/** Keyboard access to chart points: a slider that is visible while focused. */
export function PointKeys({ name, points, textOf, onMove, onChoose }: Props) {
  const [wanted, setWanted] = useState(Number.POSITIVE_INFINITY);
  const at = Math.min(wanted, points - 1);
  return (
    <input
      type="range"
      className={css.keys}
      min={0}
      max={points - 1}
      value={at}
      aria-label={`Points of ${name}`}
      aria-valuetext={`${textOf(at)}${onChoose ? ". Press Enter for details." : ""}`}
      onFocus={() => onMove(at)}
      onBlur={() => onMove(-1)}
      onChange={(event) => {
        setWanted(event.currentTarget.valueAsNumber);
        onMove(event.currentTarget.valueAsNumber);
      }}
      onKeyDown={(event) => {
        if (event.key === "Enter") onChoose?.(at);
      }}
    />
  );
}

export type Tip = { index: number; left: number; marks?: readonly Mark[] };
type TipBoxProps = { tip: Tip; chart: ChartProps; width: number; nearest: string | null };

/** Format an x value. */
export function placeName({ isTime, isDuration, xLabel, x: places }: ChartProps, x: number): string {
  if (isTime) return momentName(x, (places.at(-1) ?? x) - (places[0] ?? x), timeZone());
  return isDuration ? `${elapsed(x)} ${xLabel}` : `${xLabel} ${number(x)}`;
}

/** The value of each line at the cursor; with many lines, the largest first. */
export function TipBox({ tip, chart, width, nearest }: TipBoxProps) {
  const { x, lines, band } = chart;
  const place = x[tip.index];
  if (place === undefined) return null;
  const side = tip.left > width / 2 ? { right: width - tip.left + 12 } : { left: tip.left + 62 };
  const rows = lines.map((line) => ({ line, value: valueAt(line.values, tip.index), isNearest: line.label === nearest }));
  if (lines.length > MANY_LINES) rows.sort((a, b) => (b.value ?? -Infinity) - (a.value ?? -Infinity));
  return (
    <Paper shadow="md" px="xs" py={6} fz="xs" className={css.tip} style={{ top: 8, ...side }} aria-hidden="true">
      <div className="faint">{placeName(chart, place)}</div>
      {tip.marks?.map((mark) => (
        <Text key={`${mark.x} ${mark.text}`} fz="xs" c="var(--accent)" maw="16rem" className="anywhere" style={{ whiteSpace: "normal" }}>
          {mark.role === "note" ? "⚑" : "·"} {visible(mark.text)}
        </Text>
      ))}
      {rows.map(({ line, value, isNearest }) => (
        <Group key={line.label} gap="xs" wrap="nowrap" fw={isNearest ? "bold" : undefined} data-nearest={isNearest || undefined}>
          <Swatch look={line} />
          <span>{line.label}</span>
          <Space flex={1} />
          <b>{number(value)}</b>
        </Group>
      ))}
      {band && (
        <div className="faint">
          {band.label} {number(band.low[tip.index])} – {number(band.high[tip.index])}
        </div>
      )}
    </Paper>
  );
}
