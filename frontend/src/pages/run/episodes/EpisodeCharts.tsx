import { SegmentedControl } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { type ReactNode, useMemo } from "react";
import type { Span } from "@/api/metrics";
import type { MetricAxis, RunDetail } from "@/api/types";
import { Chart } from "@/charts/Chart";
import { type Axis, type Column, type EpisodeColumns, episodeColumns } from "@/charts/columns";
import { spanOf } from "@/charts/spans";
import { Panel } from "@/components/Panel";
import { number } from "@/format";
import { BACKFILL_ROWS, useEpisodeBackfill } from "@/live/backfill";
import { useAlertWhen } from "@/pages/alerts/rules/useAlertWhen";
import type { EpisodesSearch } from "@/pages/run/episodes/search";
import { DefaultChartPanel } from "@/pages/run/overview/DefaultChartPanel";
import { defaultChartsOf, namesOf, OWN } from "@/pages/run/overview/defaultCharts";
import { useRun } from "@/pages/run/RunContext";
import { useMarks } from "@/pages/run/useMarks";
import { type Words, wordsOf } from "@/pages/run/words";
import { isOver } from "@/theme/chips";

const route = getRouteApi("/shell/runs/$name/episodes");

const axesOf = (words: Words): { value: Axis; label: string }[] => [
  { value: "time", label: "Time" },
  { value: "env_steps", label: words.work },
  { value: "served_steps", label: "Train steps" },
];
const xLabel = (axis: Axis, words: Words): string => ({ time: "time", env_steps: words.works, served_steps: "train step" })[axis];
const WAITING = "No finished episodes yet.";

type EpisodeProps = { columns: EpisodeColumns; axis: Axis; words: Words; run: RunDetail };

/** The axis names of metric charts, which position the annotations. */
const METRIC_AXES: Record<Axis, MetricAxis> = { time: "time", env_steps: "amount", served_steps: "step" };

/** Props shared by all episode charts. */
const placed = ({ columns, axis, words }: EpisodeProps) => ({
  x: columns.x,
  isTime: axis === "time",
  xLabel: xLabel(axis, words),
  sync: "run",
  empty: WAITING,
});

function useEpisodeMarks(run: RunDetail, axis: Axis) {
  const marks = useMarks(run, METRIC_AXES[axis]);
  // The annotations' data axis counts tokens, which are not env steps.
  return axis === "env_steps" && run.kind !== "fleet" ? [] : marks;
}

/** Annotations of an episode chart, and an alert rule for the equivalent built-in metric. */
function useChartExtras(run: RunDetail, axis: Axis, name: string, values: Column) {
  const valueAt = (index: number | null) => (index === null ? values.findLast((one) => typeof one === "number") : values[index]);
  const { actions, dialog } = useAlertWhen([{ metric: OWN + name, run: run.name, valueAt }]);
  return { marks: useEpisodeMarks(run, axis), actions, dialog };
}

function ReturnChart({ aside, rows, ...props }: EpisodeProps & { aside: ReactNode; rows: number }) {
  const { columns, axis, run } = props;
  const { marks, actions, dialog } = useChartExtras(run, axis, "reward/mean", columns.recent);
  return (
    <Panel
      title="Return"
      note={rows > BACKFILL_ROWS - 1 ? `per episode, newest ${number(rows)} reports` : "per episode"}
      aside={aside}
      className="span-12"
    >
      <Chart
        name="Return per episode"
        {...placed(props)}
        lines={[
          { label: "report mean", values: columns.mean, role: 1, thin: true },
          { label: "mean of 20 episodes", values: columns.recent, role: 2 },
        ]}
        band={{ low: columns.min, high: columns.max, label: "min – max" }}
        height={268}
        marks={marks}
        actions={actions}
      />
      {dialog}
    </Panel>
  );
}

function LengthChart(props: EpisodeProps) {
  const { columns, axis, words, run } = props;
  const { marks, actions, dialog } = useChartExtras(run, axis, "length/mean", columns.length);
  return (
    <Panel title="Episode length" note={words.length} className="span-4">
      <Chart
        name={`Episode length in ${words.length}`}
        {...placed(props)}
        lines={[
          { label: "max", values: columns.lengthMax, role: 4, thin: true },
          { label: "mean", values: columns.length, role: 1 },
        ]}
        height={156}
        floor={0}
        marks={marks}
        actions={actions}
      />
      {dialog}
    </Panel>
  );
}

function VersionChart(props: EpisodeProps) {
  const marks = useEpisodeMarks(props.run, props.axis);
  return (
    <Panel title="Policy version" note="used by workers" className="span-4">
      <Chart
        name="Policy version that acted"
        {...placed(props)}
        lines={[{ label: "version", values: props.columns.version, role: 3 }]}
        height={156}
        marks={marks}
        steps
      />
    </Panel>
  );
}

/** Throughput of the fleet since the start of the run. */
function SpeedChart({ run }: { run: RunDetail }) {
  const chart = defaultChartsOf(run.kind).find(({ key }) => key === "throughput");
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const onZoom = (span: Span | null) =>
    void navigate({ search: (old) => ({ ...old, from: span?.from, to: span?.to }), replace: true, resetScroll: false });
  if (!chart) return null;
  const look = {
    run: run.name,
    axis: "time" as const,
    xLabel: "time",
    span: spanOf(search),
    isLive: !isOver(run.status),
    names: namesOf(chart),
  };
  return <DefaultChartPanel chart={chart} look={look} onZoom={onZoom} />;
}

/** Episodes as reported by workers, one point each. */
export function EpisodeCharts() {
  const { run, episodes } = useRun();
  useEpisodeBackfill(run.name, `run:${run.name}`);
  const { x: axis = "time" } = route.useSearch();
  const navigate = route.useNavigate();
  const columns = useMemo(() => episodeColumns(episodes, axis), [episodes, axis]);
  const words = wordsOf(run.kind);
  const choice = (
    <SegmentedControl
      size="xs"
      data={axesOf(words)}
      value={axis}
      aria-label="Horizontal axis"
      onChange={(value) =>
        void navigate({
          search: (old) => ({ ...old, x: value === "time" ? undefined : (value as EpisodesSearch["x"]) }),
          replace: true,
          resetScroll: false,
        })
      }
    />
  );
  return (
    <>
      <ReturnChart columns={columns} axis={axis} words={words} run={run} aside={choice} rows={episodes.length} />
      <LengthChart columns={columns} axis={axis} words={words} run={run} />
      <SpeedChart run={run} />
      <VersionChart columns={columns} axis={axis} words={words} run={run} />
    </>
  );
}
