import { SegmentedControl } from "@mantine/core";
import { type ReactNode, useMemo, useState } from "react";
import type { EpisodeRow, FleetPart, MetricRow, QueuePart, RunDetail } from "@/api/types";
import { Chart } from "@/charts/Chart";
import { type Axis, type EpisodeColumns, episodeColumns, metricColumns } from "@/charts/columns";
import { Panel } from "@/components/Panel";
import { number, visible } from "@/format";
import { PAST_ROWS } from "@/live/past";
import { useHistory } from "@/pages/run/history";

const AXES: { value: Axis; label: string }[] = [
  { value: "time", label: "Time" },
  { value: "env_steps", label: "Env steps" },
  { value: "served_steps", label: "Train steps" },
];
const X_LABELS: Record<Axis, string> = { time: "time", env_steps: "env step", served_steps: "train step" };
const WAITING = "No episode has ended yet. The curve begins with the first one.";
const SINCE = "since this page was opened";

type EpisodeProps = { columns: EpisodeColumns; axis: Axis };

function Legend({ entries }: { entries: [number, string][] }) {
  return (
    <div className="legend tiny soft" aria-hidden="true">
      {entries.map(([role, text]) => (
        <span key={text}>
          <span className="swatch" style={{ background: `var(--chart-${role})` }} /> {text}
        </span>
      ))}
    </div>
  );
}

function ReturnChart({ columns, axis, aside, rows }: EpisodeProps & { aside: ReactNode; rows: number }) {
  return (
    <Panel title="Return" note={rows > PAST_ROWS - 1 ? `per episode, newest ${number(rows)} reports` : "per episode"} aside={aside} className="span-8">
      <Chart
        name="Return per episode"
        x={columns.x}
        isTime={axis === "time"}
        xLabel={X_LABELS[axis]}
        lines={[
          { label: "mean", values: columns.mean, role: 1, thin: true },
          { label: "mean of last 20", values: columns.recent, role: 2 },
        ]}
        band={{ low: columns.min, high: columns.max, label: "min – max" }}
        height={268}
        sync="run"
        empty={WAITING}
      />
      <Legend
        entries={[
          [1, "mean of a report, band from least to greatest"],
          [2, "mean of the last 20 episodes"],
        ]}
      />
    </Panel>
  );
}

type QueueProps = { queue: QueuePart | undefined; at: string | null; isAlone: boolean };

function QueueChart({ queue, at, isAlone }: QueueProps) {
  const limit = queue?.threshold || null;
  const history = useHistory(queue, at, [queue?.queued ?? null, limit]);
  const over = queue?.over_threshold;
  return (
    <Panel title="Queue depth" note={SINCE} className={isAlone ? "span-12" : "span-4"}>
      <Chart
        name="Items queued against the threshold above which producers pause"
        x={history.x}
        isTime
        xLabel="time"
        lines={[
          { label: "queued", values: history.values[0] ?? [], role: 1 },
          { label: "threshold", values: history.values[1] ?? [], role: 2, dashed: true, thin: true },
        ]}
        height={268}
        floor={0}
        steps
        empty="Nothing was queued yet."
      />
      <div className={`legend tiny ${over ? "held" : "soft"}`}>
        {queue &&
          `${over ? "▲ over the threshold: " : ""}${number(queue.queued)} queued; ${limit ? `producers pause above ${number(limit)}` : "the trainer sets the threshold when it registers"}`}
      </div>
    </Panel>
  );
}

function LengthChart({ columns, axis }: EpisodeProps) {
  return (
    <Panel title="Episode length" note="env steps" className="span-4">
      <Chart
        name="Episode length in env steps"
        x={columns.x}
        isTime={axis === "time"}
        xLabel={X_LABELS[axis]}
        lines={[
          { label: "longest", values: columns.lengthMax, role: 4, thin: true },
          { label: "mean", values: columns.length, role: 1 },
        ]}
        height={156}
        floor={0}
        sync="run"
        empty={WAITING}
      />
    </Panel>
  );
}

function VersionChart({ columns, axis }: EpisodeProps) {
  return (
    <Panel title="Policy version" note="that acted" className="span-4">
      <Chart
        name="Policy version that acted"
        x={columns.x}
        isTime={axis === "time"}
        xLabel={X_LABELS[axis]}
        lines={[{ label: "version", values: columns.version, role: 3 }]}
        height={156}
        sync="run"
        steps
        empty={WAITING}
      />
    </Panel>
  );
}

type SpeedProps = { fleet: FleetPart | undefined; at: string | null; speed: number | null };

function SpeedChart({ fleet, at, speed }: SpeedProps) {
  const history = useHistory(fleet, at, [speed]);
  return (
    <Panel title="Env steps per second" note={SINCE} className="span-4">
      <Chart
        name="Env steps per second of the whole fleet"
        x={history.x}
        isTime
        xLabel="time"
        lines={[{ label: "env steps/s", values: history.values[0] ?? [], role: 3 }]}
        height={156}
        floor={0}
        empty="The fleet has not reported yet."
      />
    </Panel>
  );
}

type Props = SpeedProps & { run: RunDetail; queue: QueuePart | undefined; episodes: EpisodeRow[] };

/** The five curves that say whether it learns and what holds it up. */
export function RunCharts({ run, queue, fleet, episodes, at, speed }: Props) {
  const [axis, setAxis] = useState<Axis>("time");
  const columns = useMemo(() => episodeColumns(episodes, axis), [episodes, axis]);
  const choice = (
    <SegmentedControl
      size="xs"
      data={AXES}
      value={axis}
      aria-label="Horizontal axis"
      onChange={(value) => setAxis(value as Axis)}
    />
  );
  // Environments that run elsewhere push groups and report no episodes.
  if (run.kind === "outside" && episodes.length === 0) return <QueueChart queue={queue} at={at} isAlone />;
  return (
    <>
      <ReturnChart columns={columns} axis={axis} aside={choice} rows={episodes.length} />
      <QueueChart queue={queue} at={at} isAlone={false} />
      <LengthChart columns={columns} axis={axis} />
      <SpeedChart fleet={fleet} at={at} speed={speed} />
      <VersionChart columns={columns} axis={axis} />
    </>
  );
}

const METRICS_SHOWN = 24;

/** One small chart for each metric that the trainer sends. */
export function MetricCharts({ rows }: { rows: MetricRow[] }) {
  const metrics = useMemo(() => metricColumns(rows), [rows]);
  if (metrics.length === 0) return null;
  const hidden = metrics.length - METRICS_SHOWN;
  const cut = rows.length >= PAST_ROWS ? `, newest ${number(rows.length)} samples` : "";
  const note = `sent by the trainer, by train step${cut}${hidden > 0 ? `; ${hidden} more over the API` : ""}`;
  return (
    <Panel title="Training" note={note} className="span-12">
      <div className="metrics">
        {metrics.slice(0, METRICS_SHOWN).map(({ name, x, y }) => (
          <div key={name}>
            <h3>
              {visible(name).replaceAll("_", " ")} <span className="soft">{number(y.at(-1))}</span>
            </h3>
            <Chart
              name={visible(name)}
              x={x}
              isTime={false}
              xLabel="train step"
              lines={[{ label: visible(name), values: y, role: 1 }]}
              height={118}
              sync="metrics"
              empty="No sample yet."
            />
          </div>
        ))}
      </div>
    </Panel>
  );
}
