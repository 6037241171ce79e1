import { Button } from "@mantine/core";
import { useInViewport } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { type MetricAxis, type MetricKey, metricLinesQuery, type Span } from "@/api/metrics";
import { Chart, type Line } from "@/charts/Chart";
import { csvOf, drawn, gapsOf, smoothed } from "@/charts/lines";
import { number, visible } from "@/format";
import { type Picked, stretchAt } from "@/pages/run/metrics/search";
import classes from "./metrics.module.css";

export type Look = { runs: string[]; axis: MetricAxis; xLabel: string; span?: Span; smooth: number; isLive: boolean };
type Props = { metric: MetricKey; look: Look; onZoom: (span: Span | null) => void; onPick: (point: Picked) => void };

const POINTS = 600;
const CHART_HEIGHT = 170;
const ROLES = 8;

function save(text: string, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

function linesOf(columns: (number | null)[][], { runs, smooth }: Look): Line[] {
  const role = (i: number) => ((i % ROLES) + 1) as Line["role"];
  const raw = columns.map(
    (values, i): Line => ({ label: runs[i] ?? "", values, role: role(i), dashed: i % 2 === 1, thin: smooth > 0 }),
  );
  if (smooth === 0) return raw;
  const soft = columns.map(
    (values, i): Line => ({ label: `${runs[i]}, smoothed`, values: smoothed(values, smooth), role: role(i), dashed: i % 2 === 1 }),
  );
  return [...raw, ...soft];
}

function Body({ metric, look, onZoom, onPick }: Props) {
  const { runs, axis, span, isLive, xLabel } = look;
  const { data, isPending } = useQuery(metricLinesQuery({ runs, name: metric.name, axis, span, points: POINTS, isLive }));
  const lines = data ?? [];
  const shown = useMemo(() => drawn(data ?? []), [data]);
  const gaps = gapsOf(lines);
  const bucket = lines.reduce((widest, line) => Math.max(widest, line.bucket), 0);
  const isCondensed = lines.some((line) => !line.is_exact);
  const pick = (index: number) => {
    const stretch = stretchAt(lines[0], shown.x[index] ?? 0);
    if (stretch) onPick({ metric: metric.name, ...stretch });
  };
  return (
    <>
      <Chart
        name={visible(metric.name)}
        x={shown.x}
        isTime={axis === "time"}
        xLabel={xLabel}
        lines={linesOf(shown.last, look)}
        band={shown.band ? { ...shown.band, label: "min – max" } : undefined}
        height={CHART_HEIGHT}
        sync="metrics"
        onZoom={onZoom}
        onPick={pick}
        empty={isPending ? "Asking for the line…" : "No sample in this range."}
      />
      <div className="legend tiny soft">
        <span data-bucket={bucket}>
          {isCondensed ? `each point ${number(bucket)} ${axis === "time" ? "s" : xLabel}s wide, band least to greatest` : "every sample"}
        </span>
        {gaps && <span className="held">▲ {gaps}</span>}
        <Button size="compact-xs" variant="subtle" onClick={() => save(csvOf(lines, axis), `${metric.name.replaceAll("/", "-")}.csv`)}>
          CSV
        </Button>
      </div>
    </>
  );
}

/** One metric over the chosen x; drawn only while it is on the screen. */
export function MetricCard(props: Props) {
  const { ref, inViewport } = useInViewport<HTMLElement>();
  const { metric } = props;
  const value = typeof metric.value === "number" ? number(metric.value) : metric.value;
  return (
    <section ref={ref} className={`panel ${classes.card}`} aria-label={visible(metric.name)} data-metric={metric.name}>
      <div className={classes.head}>
        <h3>{visible(metric.name)}</h3>
        <span className="small soft" title={`at step ${metric.step}`}>
          {value}
        </span>
      </div>
      {inViewport && <Body {...props} />}
    </section>
  );
}
