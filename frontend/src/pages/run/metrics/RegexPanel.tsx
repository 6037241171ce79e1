import { ActionIcon } from "@mantine/core";
import { useInViewport } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useMemo } from "react";
import { metricNamesOfQuery, namedLinesQuery, type Span } from "@/api/metrics";
import { Chart } from "@/charts/Chart";
import type { Controlled } from "@/charts/controllableState";
import { bucketSheet, drawn } from "@/charts/lines";
import type { Mark } from "@/charts/model";
import { runLines } from "@/charts/runLines";
import { counted, number, visible } from "@/format";
import { useAlertWhen } from "@/pages/alerts/rules/useAlertWhen";
import { chartTarget } from "@/share/share";
import type { Look } from "./MetricCard";
import classes from "./metrics.module.css";
import { matched } from "./tree";

const POINTS = 400;
const CHART_HEIGHT = 260;

/** Maximum number of entries in the chart's alert menu. */
const WATCHED_AT_MOST = 8;

export type PanelProps = {
  run: string;
  expression: string;
  look: Look;
  marks: readonly Mark[];
  isLog: Controlled<boolean>;
  onZoom: (span: Span | null) => void;
  onRemove: () => void;
};

function howMany(shown: number, total: number): string {
  return total > shown ? `first ${number(shown)} of ${number(total)} matching metrics` : counted(total, "metric matches", "metrics match");
}

export function RemovePanel({ name, onRemove }: { name: string; onRemove: () => void }) {
  return (
    <ActionIcon size={22} variant="subtle" color="gray" aria-label={`Remove panel ${name}`} onClick={onRemove}>
      <X size={14} aria-hidden="true" />
    </ActionIcon>
  );
}

/** One chart of all metrics whose name matches an expression. */
export function RegexPanel({ run, expression, look, marks, isLog, onZoom, onRemove }: PanelProps) {
  const { ref, inViewport } = useInViewport<HTMLElement>();
  const { data: known = [], isPending } = useQuery(metricNamesOfQuery(run));
  const { names, total, problem } = useMemo(() => matched(known, expression), [known, expression]);
  const { axis, span, smooth, isLive, xLabel } = look;
  const { data: lines = [] } = useQuery({
    ...namedLinesQuery({ run, names, axis, span, points: POINTS, isLive }),
    enabled: inViewport && names.length > 0,
  });
  const shown = useMemo(() => drawn(lines), [lines]);
  const { actions, dialog } = useAlertWhen(
    lines.slice(0, WATCHED_AT_MOST).map((line, i) => ({
      metric: line.name,
      run,
      label: visible(line.name),
      valueAt: (index: number | null) => (index === null ? line.last.findLast((one) => typeof one === "number") : shown.last[i]?.[index]),
    })),
  );
  const name = `/${visible(expression)}/`;
  return (
    <section
      ref={ref}
      className={`panel ${classes.card} ${classes.wide}`}
      aria-label={name}
      data-panel={expression}
      data-target={chartTarget(name)}
    >
      <div className={classes.head}>
        <h3>{name}</h3>
        <span className="spacer" />
        <span className="small soft" data-matched={total}>
          {problem ?? howMany(names.length, total)}
        </span>
        <RemovePanel name={name} onRemove={onRemove} />
      </div>
      {inViewport && !problem && (
        <Chart
          name={name}
          target={chartTarget(name)}
          x={shown.x}
          isTime={axis === "time"}
          isDuration={axis === "elapsed"}
          xLabel={xLabel}
          lines={runLines(
            lines.map((line) => visible(line.name)),
            shown.last,
            { smooth },
          )}
          height={CHART_HEIGHT}
          sync="metrics"
          onZoom={onZoom}
          marks={marks}
          actions={actions}
          isLog={isLog}
          sheet={() => bucketSheet(lines, axis)}
          hasLegend
          empty={isPending ? "Loading…" : total === 0 ? "No matching metrics." : "No samples in this range."}
        />
      )}
      {dialog}
    </section>
  );
}
