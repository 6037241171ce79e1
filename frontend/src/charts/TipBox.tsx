import { type ChartProps, MANY_LINES, type Mark } from "@/charts/model";
import { Swatch } from "@/charts/Swatch";
import { valueAt } from "@/charts/sheet";
import { momentName } from "@/charts/ticks";
import { elapsed, number, timeZone, visible } from "@/format";

export type Tip = { index: number; left: number; marks?: readonly Mark[] };
type Props = { tip: Tip; chart: ChartProps; width: number; nearest: string | null };

/** Format an x value. */
export function placeName({ isTime, isDuration, xLabel, x: places }: ChartProps, x: number): string {
  if (isTime) return momentName(x, (places.at(-1) ?? x) - (places[0] ?? x), timeZone());
  return isDuration ? `${elapsed(x)} ${xLabel}` : `${xLabel} ${number(x)}`;
}

/** The value of each line at the cursor; with many lines, the largest first. */
export function TipBox({ tip, chart, width, nearest }: Props) {
  const { x, lines, band } = chart;
  const place = x[tip.index];
  if (place === undefined) return null;
  const side = tip.left > width / 2 ? { right: width - tip.left + 12 } : { left: tip.left + 62 };
  const rows = lines.map((line) => ({ line, value: valueAt(line.values, tip.index), isNearest: line.label === nearest }));
  if (lines.length > MANY_LINES) rows.sort((a, b) => (b.value ?? -Infinity) - (a.value ?? -Infinity));
  return (
    <div className="chart-tip" style={{ top: 8, ...side }} aria-hidden="true">
      <div className="faint">{placeName(chart, place)}</div>
      {tip.marks?.map((mark) => (
        <div key={`${mark.x} ${mark.text}`} className="chart-tip-mark">
          {mark.role === "note" ? "⚑" : "·"} {visible(mark.text)}
        </div>
      ))}
      {rows.map(({ line, value, isNearest }) => (
        <div key={line.label} className="chart-tip-row" data-nearest={isNearest || undefined}>
          <Swatch look={line} />
          <span>{line.label}</span>
          <b>{number(value)}</b>
        </div>
      ))}
      {band && (
        <div className="faint">
          {band.label} {number(band.low[tip.index])} – {number(band.high[tip.index])}
        </div>
      )}
    </div>
  );
}
