import { useInViewport } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { metricLinesQuery, type Span } from "@/api/metrics";
import { Chart } from "@/charts/Chart";
import type { Controlled } from "@/charts/controllableState";
import { bucketSheet, drawn, gapsOf, widthOf } from "@/charts/lines";
import { runLines } from "@/charts/runLines";
import { sheetOf } from "@/charts/sheet";
import { visible } from "@/format";
import { useAlertWhen } from "@/pages/alerts/rules/useAlertWhen";
import { titleOf } from "@/pages/run/metricOrder";
import css from "./compare.module.css";
import { absentFrom } from "./comparing";
import type { ComparisonView } from "./comparisonView";
import { groupLines } from "./grouping";

type Props = {
  metric: string;
  view: ComparisonView;
  isLog: Controlled<boolean>;
  hidden: Controlled<readonly string[]>;
  onZoom: (span: Span | null) => void;
};

const HEIGHT = 260;

function Body({ metric, view, isLog, hidden, onZoom }: Props) {
  const { axis, span, smooth, xLabel, unit, places, groups, spread } = view;
  const { data, isPending } = useQuery({ ...metricLinesQuery({ ...view, name: metric }), enabled: view.runs.length > 0 });
  const lines = data ?? [];
  const shown = useMemo(() => drawn(data ?? []), [data]);
  // Before the lines are loaded, the legend already names the runs.
  const names = data ? lines.map(({ run }) => run) : view.runs;
  const columns = data ? shown.last : names.map(() => []);
  const drawnLines = useMemo(() => {
    if (!groups) return runLines(names, columns, { smooth, places });
    const ofRuns = names.map((run, i) => ({ run, values: columns[i] ?? [] }));
    return groupLines(groups, shown.x, ofRuns, { spread, smooth });
  }, [data, view]);
  const gaps = gapsOf(lines);
  const absent = absentFrom(lines);
  // For all runs with this metric; the dialog restricts the scope.
  const { actions, dialog } = useAlertWhen([{ metric, valueAt: (index) => (index === null ? null : shown.last[0]?.[index]) }]);
  const bucket = lines.reduce((widest, line) => Math.max(widest, line.bucket), 0);
  return (
    <>
      <Chart
        name={visible(metric)}
        x={shown.x}
        isTime={axis === "time"}
        isDuration={axis === "elapsed"}
        xLabel={xLabel}
        lines={drawnLines}
        band={shown.band && !groups ? { ...shown.band, label: "min – max" } : undefined}
        height={HEIGHT}
        sync="compare"
        onZoom={onZoom}
        empty={isPending ? "Loading…" : span ? "No samples in this range." : "None of these runs has this metric."}
        isLog={isLog}
        hidden={groups ? undefined : hidden}
        names={groups ? undefined : view.runs}
        hasLegend
        isLegendKept
        actions={actions}
        sheet={(range) =>
          groups
            ? sheetOf({ x: shown.x, xLabel, lines: drawnLines }, range)
            : bucketSheet(
                lines.filter(({ run }) => !hidden.value.includes(run)),
                axis,
              )
        }
      />
      {dialog}
      <p className={`tiny soft ${css.note}`}>
        <span data-bucket={bucket}>{widthOf(lines, unit)}</span>
        {gaps && <span className="held">▲ {gaps}</span>}
        {absent.length > 0 && data && (
          <span data-absent={absent.join(",")}>
            {span ? "no samples in this range:" : "not recorded by"} {absent.join(", ")}
          </span>
        )}
      </p>
    </>
  );
}

/** The chart of one metric for all runs; mounted only while on screen. */
export function Overlay(props: Props) {
  const { ref, inViewport } = useInViewport<HTMLElement>();
  const title = titleOf(props.view.kinds, props.metric);
  return (
    <section ref={ref} className={`panel ${css.overlay}`} aria-label={visible(props.metric)} data-metric={props.metric}>
      <h2>
        {title} {title ? <span className="faint small">{visible(props.metric)}</span> : visible(props.metric)}
      </h2>
      {inViewport && <Body {...props} />}
    </section>
  );
}
