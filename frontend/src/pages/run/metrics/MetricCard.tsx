import { ActionIcon } from "@mantine/core";
import { useInViewport } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { Pin } from "lucide-react";
import { useMemo } from "react";
import { type MetricKey, metricLinesQuery, type Span } from "@/api/metrics";
import type { MetricAxis } from "@/api/types";
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
type Props = {
  metric: MetricKey;
  /** Shown beside the name; undefined if the name says enough. */
  title?: string;
  look: Look;
  isLog: Controlled<boolean>;
  isPinned: Controlled<boolean>;
  onZoom: (span: Span | null) => void;
  onPick: (point: Picked) => void;
  onAlert: (start: RuleStart) => void;
  marks: readonly Mark[];
};

const POINTS = 600;
const CHART_HEIGHT = 170;

function Body({ metric, look, isLog, onZoom, onPick, onAlert, marks }: Omit<Props, "isPinned" | "title">) {
  const { runs, axis, span, smooth, isLive, xLabel } = look;
  const { data, isPending } = useQuery(metricLinesQuery({ runs, name: metric.name, axis, span, points: POINTS, isLive }));
  const lines = data ?? [];
  const shown = useMemo(() => drawn(data ?? []), [data]);
  const gaps = gapsOf(lines);
  const bucket = lines.reduce((widest, line) => Math.max(widest, line.bucket), 0);
  const pick = (index: number) => {
    const stretch = stretchAt(lines[0], shown.x[index] ?? 0);
    if (stretch) onPick({ metric: metric.name, ...stretch });
  };
  const alertWhen = (index: number | null) => {
    const value = index === null ? metric.value : shown.last[0]?.[index];
    onAlert({ metric: metric.name, run: runs[0], threshold: typeof value === "number" ? Number(levelText(value)) : undefined });
  };
  return (
    <>
      <Chart
        name={visible(metric.name)}
        target={chartTarget(metric.name)}
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
        isLog={isLog}
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
}

/** The chart of one metric; mounted only while on screen. */
export function MetricCard(props: Props) {
  const { ref, inViewport } = useInViewport<HTMLElement>();
  const { metric, title, isPinned } = props;
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
      {inViewport && <Body {...props} />}
    </section>
  );
}
