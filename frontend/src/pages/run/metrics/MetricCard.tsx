import { ActionIcon } from "@mantine/core";
import { useInViewport } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { Pin } from "lucide-react";
import { memo, useDeferredValue, useMemo } from "react";
import { type MetricKey, metricLinesQuery, type Span } from "@/api/metrics";
import type { MetricAxis, MetricLine } from "@/api/types";
import { Chart } from "@/charts/Chart";
import type { Controlled } from "@/charts/controllableState";
import { bucketSheet, drawn, gapsOf, widthOf } from "@/charts/lines";
import type { Mark } from "@/charts/model";
import { runLines } from "@/charts/runLines";
import { number, visible } from "@/format";
import { levelText, type RuleStart } from "@/pages/alerts/rules/drafts";
import { type Picked, stretchAt } from "@/pages/run/metrics/search";
import { chartTarget } from "@/share/share";
import classes from "./metrics.module.css";

export type Look = { runs: string[]; axis: MetricAxis; xLabel: string; span?: Span; smooth: number; isLive: boolean };
type ChartSettings = {
  name: string;
  look: Look;
  isLog: boolean;
  onLog: (metric: string, isOn: boolean) => void;
  onZoom: (span: Span | null) => void;
  onPick: (point: Picked) => void;
  onAlert: (start: RuleStart) => void;
  marks: readonly Mark[];
};
type Props = Omit<ChartSettings, "name"> & {
  metric: MetricKey;
  /** Shown beside the name; undefined if the name says enough. */
  title?: string;
  isPinned: Controlled<boolean>;
};

const POINTS = 600;
const CHART_HEIGHT = 170;
const NO_LINES: MetricLine[] = [];

type Loaded = ChartSettings & { lines: MetricLine[]; isPending: boolean };

const MetricChart = memo(function MetricChart(props: Loaded) {
  const { name, look, lines, isPending, isLog, onLog, onZoom, onPick, onAlert, marks } = props;
  const { runs, axis, smooth, xLabel } = look;
  const shown = useMemo(() => drawn(lines), [lines]);
  const gaps = gapsOf(lines);
  const bucket = lines.reduce((widest, line) => Math.max(widest, line.bucket), 0);
  const pick = (index: number) => {
    const stretch = stretchAt(lines[0], shown.x[index] ?? 0);
    if (stretch) onPick({ metric: name, ...stretch });
  };
  const alertWhen = (index: number | null) => {
    const values = shown.last[0];
    const value = index === null ? values?.findLast((one) => typeof one === "number") : values?.[index];
    onAlert({ metric: name, run: runs[0], threshold: typeof value === "number" ? Number(levelText(value)) : undefined });
  };
  return (
    <>
      <Chart
        name={visible(name)}
        target={chartTarget(name)}
        x={shown.x}
        isTime={axis === "time"}
        isDuration={axis === "elapsed"}
        xLabel={xLabel}
        lines={runLines(
          lines.map(({ run }) => run),
          shown.last,
          { smooth },
        )}
        band={shown.band ? { ...shown.band, label: "min – max" } : undefined}
        height={CHART_HEIGHT}
        sync="metrics"
        onZoom={onZoom}
        onPick={pick}
        empty={isPending ? "Loading…" : "No samples in this range."}
        isLog={{ value: isLog, change: (isOn) => onLog(name, isOn) }}
        marks={marks}
        actions={[{ label: "Alert when…", act: alertWhen }]}
        sheet={() => bucketSheet(lines, axis)}
      />
      <div className="legend tiny soft">
        <span data-bucket={bucket}>
          {widthOf(lines, axis === "time" || axis === "elapsed" ? "s" : `${xLabel}s`)}
          {shown.band && ", min–max band"}
        </span>
        {gaps && <span className="held">▲ {gaps}</span>}
      </div>
    </>
  );
});

function Body(settings: ChartSettings) {
  const { runs, axis, span, isLive } = settings.look;
  const { data = NO_LINES, isPending } = useQuery(metricLinesQuery({ runs, name: settings.name, axis, span, points: POINTS, isLive }));
  // The charts of a screen receive new data together: deferred, they are rendered between frames.
  return <MetricChart {...settings} lines={useDeferredValue(data)} isPending={isPending} />;
}

/** The chart of one metric; mounted only while on screen. */
export function MetricCard(props: Props) {
  const { ref, inViewport } = useInViewport<HTMLElement>();
  const { metric, title, isPinned, ...settings } = props;
  const value = typeof metric.value === "number" ? number(metric.value) : metric.value;
  return (
    <section
      ref={ref}
      className={`panel ${classes.card}`}
      aria-label={visible(metric.name)}
      data-metric={metric.name}
      data-target={chartTarget(metric.name)}
    >
      <div className={classes.head}>
        <h3>
          {title} {title ? <span className="faint small">{visible(metric.name)}</span> : visible(metric.name)}
        </h3>
        <ActionIcon
          className={classes.pin}
          size={22}
          variant="subtle"
          color="gray"
          aria-label={`Pin ${visible(metric.name)}`}
          aria-pressed={isPinned.value}
          title={isPinned.value ? "Pinned to the top; click to unpin" : "Pin to the top"}
          onClick={() => isPinned.change(!isPinned.value)}
        >
          <Pin size={14} aria-hidden="true" />
        </ActionIcon>
        <span className="spacer" />
        <span className="small soft" title={`at step ${metric.step}`}>
          {value}
        </span>
      </div>
      {inViewport && <Body name={metric.name} {...settings} />}
    </section>
  );
}
