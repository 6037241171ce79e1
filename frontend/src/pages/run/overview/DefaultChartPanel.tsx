import { useInViewport } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { Span } from "@/api/metrics";
import { Chart } from "@/charts/Chart";
import { softened } from "@/charts/runLines";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { count } from "@/format";
import { useAlertWhen } from "@/pages/alerts/rules/useAlertWhen";
import type { MarkedEvents } from "@/pages/run/annotations";
import { type Picked, stretchAt } from "@/pages/run/metrics/search";
import { curvesQuery, type Look } from "@/pages/run/overview/curves";
import { askAgainMs, type DefaultChart, drawing, OWN, watchablesOf } from "@/pages/run/overview/defaultCharts";
import { useRun } from "@/pages/run/RunContext";
import { useMarks } from "@/pages/run/useMarks";
import { chartTarget } from "@/share/share";
import classes from "./overview.module.css";

type Props = {
  chart: DefaultChart;
  look: Look;
  /** Weight of the moving average; defaults to none. */
  smooth?: number;
  onZoom: (span: Span | null) => void;
  /** Absent for charts whose points cannot be chosen. */
  onPick?: (point: Picked) => void;
  /** CSS class for the panel width; the chart has a default. */
  className?: string;
  /** Which changes are marked; defaults to those of the run. */
  events?: MarkedEvents;
  /** The first curve's quantity in the figures of the page, shown in place of its newest sample; null if it is unknown. */
  current?: number | null;
};

const HEIGHT = 156;
const LARGE_HEIGHT = 268;
/** Takes the line of the newest value, so that the chart does not move. */
const NO_VALUE = <span className={classes.newest}>&nbsp;</span>;

/** The lines of all visible charts, in one shared request. */
function useLines(look: Look, isSeen: boolean) {
  return useQuery({
    ...curvesQuery(look),
    enabled: isSeen,
    refetchInterval: (query) => look.isLive && isSeen && askAgainMs(query.state.data),
  });
}

/** One of the default charts; loaded and drawn only while on screen. */
export function DefaultChartPanel({
  chart,
  look,
  smooth = 0,
  onZoom,
  onPick,
  className = chart.isWide ? "span-8" : "span-4",
  events,
  current,
}: Props) {
  const { ref, inViewport } = useInViewport<HTMLDivElement>();
  const { run } = useRun();
  const marks = useMarks(run, look.axis, "all", events);
  const { data, error } = useLines(look, inViewport);
  const { x, lines, band, newest } = useMemo(() => drawing(chart, data ?? []), [chart, data]);
  const { actions, dialog } = useAlertWhen(watchablesOf(chart, run.name, { lines }));
  const target = chartTarget(chart.key);
  // An empty chart needs no explanatory text.
  const isEmpty = x.length === 0;
  const pick = (index: number) => {
    const metric = OWN + (chart.curves[0]?.name ?? "");
    const stretch = stretchAt(
      data?.find(({ name }) => name === metric),
      x[index] ?? 0,
    );
    if (stretch) onPick?.({ metric, ...stretch });
  };
  const isCurrent = current !== undefined;
  const shown = isCurrent ? current : newest;
  const value = (
    <span
      className={classes.newest}
      data-newest={shown ?? ""}
      data-quantity={isCurrent ? chart.key : undefined}
      title={isCurrent ? "current value, as elsewhere on this page" : "newest value"}
    >
      {count(shown)} {shown !== null && chart.unit}
    </span>
  );
  return (
    <Panel
      target={target}
      title={chart.title}
      note={chart.note}
      aside={isEmpty || chart.hasEqualCurves ? NO_VALUE : value}
      className={className}
    >
      <div ref={ref} className={chart.isTall ? classes.tall : classes.plot} data-curve={chart.key}>
        {error && !data ? (
          <ErrorState title="Chart unavailable" error={error.message} />
        ) : (
          inViewport && (
            <Chart
              name={`${chart.title}, ${chart.note}`}
              target={target}
              x={x}
              isTime={look.axis === "time"}
              xLabel={look.xLabel}
              lines={softened(lines, smooth)}
              band={band}
              height={chart.isTall ? LARGE_HEIGHT : HEIGHT}
              floor={chart.floor}
              least={chart.least}
              sync="overview"
              marks={marks}
              actions={actions}
              onZoom={onZoom}
              onPick={onPick && pick}
              isLegendKept={!data && chart.curves.length > 1}
              empty={data ? chart.empty : "Loading…"}
            />
          )
        )}
      </div>
      {dialog}
    </Panel>
  );
}
