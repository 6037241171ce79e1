/** Panels of one to many runs. */

import { Group, Paper } from "@mantine/core";
import { useInViewport } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { memo, type ReactNode, useContext, useDeferredValue, useMemo } from "react";
import { type LinesView, linesQuery, metricNamesQuery, type Span, useMetricsRefresh } from "@/api/metrics";
import type { MetricLine } from "@/api/types";
import { Chart, useChartLook } from "@/charts/Chart";
import { bucketSheet, gapsOf, widthOf } from "@/charts/lines";
import { lookOf } from "@/charts/look";
import type { Controlled, Mark, Range } from "@/charts/model";
import { sheetOf } from "@/charts/sheet";
import { type Columns, ErrorState, Guarded, PanelHead } from "@/components/panels";
import { count, counted, number, visible } from "@/format";
import { useAlertWhen } from "@/rules/useAlertWhen";
import { SharingContext } from "@/share/focus";
import { chartTarget } from "@/share/share";
import { drawingOf, newestOf, type RunsLook } from "@/wall/drawing";
import { LINES_AT_MOST, matched, namesOf, type PanelSpec, problemOf, requestsOf } from "@/wall/panels";
import { type Picked, stretchAt } from "@/wall/view";
import css from "./wall.module.css";

/** What the panels of a wall have in common. */
export type WallView = RunsLook &
  Pick<LinesView, "axis" | "span" | "points"> & {
    xLabel: string;
    /** Annotations of the run of the page. */
    marks?: readonly Mark[];
    /** Hidden runs. */
    hidden?: Controlled<readonly string[]>;
    /** Charts with the same key share their cursor. */
    sync: string;
    /** Whether a run may still record metrics. */
    isLive: boolean;
    onZoom: (span: Span | null) => void;
    /** Absent for charts whose points cannot be chosen. */
    onPick?: (point: Picked) => void;
  };

type Props = {
  spec: PanelSpec;
  view: WallView;
  /** Names that are requested together with those of other panels; defaults to its own. */
  names?: readonly string[];
  /** The first line's quantity elsewhere on the page, shown in place of its newest sample; null if it is unknown. */
  current?: number | null;
};

/** Maximum number of entries in the chart's alert menu. */
const WATCHED_AT_MOST = 8;
const HEIGHT = 170;
const [LEGEND_PX, FOOT_PX] = [28, 24];
const NO_LINES: MetricLine[] = [];
const NO_NAMES: string[] = [];

/** The unit of a point's width on the axis. */
const unitOf = ({ axis, xLabel }: WallView): string => (axis === "time" || axis === "elapsed" ? "s" : `${xLabel}s`);

/** The metrics of a panel; those of a regular expression are found in the first run. */
function usePanelNames({ source }: PanelSpec, runs: readonly string[]) {
  const isRegex = source.kind === "regex";
  const { data: known = NO_NAMES, isPending } = useQuery({ ...metricNamesQuery(runs[0] ?? ""), enabled: isRegex });
  return useMemo(() => {
    if (source.kind !== "regex") return { names: namesOf(source), total: 0, isPending: false };
    const { names, total } = matched(known, source.pattern);
    return { names: names.slice(0, Math.max(1, Math.floor(LINES_AT_MOST / Math.max(1, runs.length)))), total, isPending };
  }, [source, known, isPending, runs.length]);
}

function matchesText(shown: number, total: number): string {
  return total > shown ? `first ${number(shown)} of ${number(total)} matching metrics` : counted(total, "metric matches", "metrics match");
}

function Head({ spec: { title, note }, children }: Pick<Props, "spec"> & { children?: ReactNode }) {
  return (
    <PanelHead title={title} note={note}>
      {children}
    </PanelHead>
  );
}

type BodyProps = Props & { target: string };

/** The chart of a panel: mounted only while on screen. */
function Body({ spec, view, names: together, target, current }: BodyProps) {
  const { runs, axis, span, points, xLabel, groups, hidden, marks, onPick } = view;
  const { source, height = HEIGHT } = spec;
  const { look } = useChartLook(target);
  const { data: known } = useQuery({ ...metricNamesQuery(runs[0] ?? ""), enabled: look.isLarge === true });
  const own = usePanelNames(spec, runs);
  const asked = look.x ? [...new Set([...own.names, look.x])] : source.kind === "regex" ? own.names : (together ?? own.names);
  const { data, error, isPending, refetch } = useQuery(linesQuery({ runs, names: asked, axis, span, points }));
  // The charts of a screen receive new data together: deferred, they are rendered between frames.
  const lines = useDeferredValue(data ?? NO_LINES);
  const drawing = useMemo(() => drawingOf(spec, lines, { ...view, names: own.names, x: look.x }), [spec, lines, view, own.names, look.x]);
  const { actions, dialog } = useAlertWhen(
    drawing.watched.slice(0, groups || source.kind === "metric" ? 1 : WATCHED_AT_MOST).map(({ metric, run, label, values }) => ({
      metric,
      run: runs.length === 1 ? run : undefined,
      label,
      valueAt: (index: number | null) => (index === null ? newestOf(values) : values[index]),
    })),
  );
  if (error && !data) {
    return (
      <>
        <Head spec={spec} />
        <div className={css.body}>
          <ErrorState title="Chart unavailable" error={error} onRetry={() => void refetch()} />
        </div>
      </>
    );
  }
  const pick = (index: number) => {
    const [metric] = drawing.watched;
    const stretch = stretchAt(drawing.found[0], drawing.x[index] ?? 0);
    if (metric && stretch) onPick?.({ metric: metric.metric, ...stretch });
  };
  const isPreset = source.kind === "preset";
  const isShared = runs.length > 1 && source.kind !== "regex";
  const isWaiting = data === undefined ? (own.names.length === 0 ? own.isPending : isPending) : lines !== data;
  const absence = source.kind === "regex" && own.total === 0 ? "No matching metrics." : (spec.empty ?? "No samples in this range.");
  const xName = look.x ? visible(look.x) : xLabel;
  const { x, lines: drawn, band, found, absent } = drawing;
  const visibleLines = () => found.filter(({ run }) => !hidden?.value.includes(run));
  const ofBuckets = isPreset || look.x || found.length === 0 ? undefined : () => bucketSheet(visibleLines(), axis);
  const sheet = groups ? (range: Range) => sheetOf({ x, xLabel: xName, lines: drawn }, range) : ofBuckets;
  return (
    <>
      <Head spec={spec}>
        {runs.length === 1 && source.kind !== "regex" && !spec.hasEqualCurves && x.length > 0 && (
          <Newest spec={spec} value={current === undefined ? drawing.newest : current} isCurrent={current !== undefined} />
        )}
      </Head>
      <div className={css.body} style={{ minHeight: heightOf(spec, view) }}>
        <Chart
          name={isPreset ? `${spec.title}, ${spec.note}` : visible(spec.key)}
          target={target}
          x={x}
          isTime={axis === "time" && !look.x}
          isDuration={axis === "elapsed" && !look.x}
          xLabel={xName}
          lines={drawn}
          band={band}
          height={height}
          floor={spec.floor}
          least={spec.least}
          isScatter={drawing.isScatter}
          // Over a metric, places are not those of the other charts of the page.
          {...(look.x ? {} : { sync: view.sync, onZoom: view.onZoom, onPick: onPick && found.length > 0 ? pick : undefined, marks })}
          xChoices={known ?? NO_NAMES}
          actions={actions}
          hidden={isShared && !groups ? hidden : undefined}
          hasLegend={groups || source.kind === "regex" ? true : isShared ? false : undefined}
          isLegendKept={Boolean(groups) || (isPreset && !data && source.curves.length > 1)}
          empty={isWaiting ? "Loading…" : absence}
          sheet={sheet}
        />
        {!isPreset && <Foot view={view} found={found} absent={isWaiting ? [] : absent} hasBand={band !== undefined} />}
        {source.kind === "regex" && (
          <p className="tiny soft" data-matched={own.total}>
            {matchesText(own.names.length, own.total)}
          </p>
        )}
      </div>
      {dialog}
    </>
  );
}

function Newest({ spec, value, isCurrent }: { spec: PanelSpec; value: number | null; isCurrent: boolean }) {
  return (
    <span
      className={css.newest}
      data-newest={value ?? ""}
      data-quantity={isCurrent ? spec.key : undefined}
      title={isCurrent ? "current value, as elsewhere on this page" : "newest value"}
    >
      {count(value)} {value !== null && spec.unit}
    </span>
  );
}

/** Foot of a chart: the width of its points, omitted values, and runs without samples. */
function Foot({ view, found, absent, hasBand }: { view: WallView; found: MetricLine[]; absent: string[]; hasBand: boolean }) {
  const gaps = gapsOf(found);
  const bucket = found.reduce((widest, line) => Math.max(widest, line.bucket), 0);
  return (
    <Group gap="0.2rem 1.1rem" mih="1.4rem" pt={4} className="tiny soft anywhere">
      {found.length > 0 && (
        <span data-bucket={bucket}>
          {widthOf(found, unitOf(view))}
          {hasBand && ", min–max band"}
        </span>
      )}
      {gaps && <span className="held">▲ {gaps}</span>}
      {absent.length > 0 && (
        <span data-absent={absent.join(",")}>
          {view.span ? "no samples in this range:" : "not recorded by"} {visible(absent.join(", "))}
        </span>
      )}
    </Group>
  );
}

/** Room for chart, legend and foot, so that the layout does not shift when they appear. */
function heightOf({ source, height = HEIGHT }: PanelSpec, { groups }: WallView): number {
  const isPreset = source.kind === "preset";
  const hasLegend = isPreset || source.kind === "regex" || groups;
  return height + (hasLegend ? LEGEND_PX : 0) + (isPreset ? 0 : FOOT_PX);
}

/** One panel of a wall: a chart of one to many runs, loaded and drawn only while on screen. */
export const Panel = memo(function Panel(props: Props) {
  const { ref, inViewport } = useInViewport<HTMLElement>();
  const { spec, view } = props;
  const { key, title, source, columns } = spec;
  const target = chartTarget(key);
  const problem = useMemo(() => problemOf(source), [source]);
  return (
    <Paper
      ref={ref}
      data-columns={columns}
      component="section"
      aria-label={source.kind === "preset" ? title : visible(key)}
      data-panel={key}
      data-target={target}
    >
      {inViewport && !problem ? (
        <Body {...props} target={target} />
      ) : (
        <>
          <Head spec={spec} />
          <div className={css.body} style={{ minHeight: heightOf(spec, view) }}>
            {problem && <p className="small bad">{problem}</p>}
          </div>
        </>
      )}
    </Paper>
  );
});

type WallProps = {
  panels: readonly PanelSpec[];
  view: WallView;
  /** Names that all presets are requested with; defaults to theirs. */
  together?: readonly string[];
  className?: string;
  columns?: Columns;
  /** Current values of the page by the key of a panel. */
  current?: Record<string, number | null | undefined>;
};

/** Rendered alone when a run announces metrics. */
function Refresh({ runs, isLive }: Pick<WallView, "runs" | "isLive">) {
  useMetricsRefresh(runs, isLive);
  return null;
}

/** Panels of one to many runs with a common axis, range and legend; each fails alone. */
export function Wall({ panels, view, together, className = css.wall, columns, current }: WallProps) {
  const looks = useContext(SharingContext)?.looks;
  const requests = useMemo(() => {
    const alone = new Set(panels.flatMap(({ key }) => (lookOf(looks?.[key]).x === undefined ? [] : [key])));
    return requestsOf(panels, { runs: view.runs.length, alone, together });
  }, [panels, view.runs.length, together, looks]);
  return (
    <div className={className} data-columns={columns}>
      <Refresh runs={view.runs} isLive={view.isLive} />
      <Guarded>
        {panels.map((spec) => (
          <Panel key={spec.key} spec={spec} view={view} names={requests.get(spec.key)} current={current?.[spec.key]} />
        ))}
      </Guarded>
    </div>
  );
}
