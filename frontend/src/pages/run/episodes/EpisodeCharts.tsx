import { SegmentedControl } from "@mantine/core";
import { type ReactNode, useMemo, useState } from "react";
import { Chart } from "@/charts/Chart";
import { type Axis, type EpisodeColumns, episodeColumns } from "@/charts/columns";
import { Panel } from "@/components/Panel";
import { number } from "@/format";
import { PAST_ROWS } from "@/live/past";
import { useRun } from "@/pages/run/RunContext";
import type { History } from "@/pages/run/overview/history";
import { type Words, wordsOf } from "@/pages/run/words";

const axesOf = (words: Words): { value: Axis; label: string }[] => [
  { value: "time", label: "Time" },
  { value: "env_steps", label: words.work },
  { value: "served_steps", label: "Train steps" },
];
const xLabel = (axis: Axis, words: Words): string => ({ time: "time", env_steps: words.works, served_steps: "train step" })[axis];
const WAITING = "No episode has ended yet. The curve begins with the first one.";

type EpisodeProps = { columns: EpisodeColumns; axis: Axis; words: Words };

function ReturnChart({ columns, axis, words, aside, rows }: EpisodeProps & { aside: ReactNode; rows: number }) {
  return (
    <Panel title="Return" note={rows > PAST_ROWS - 1 ? `per episode, newest ${number(rows)} reports` : "per episode"} aside={aside} className="span-12">
      <Chart
        name="Return per episode"
        x={columns.x}
        isTime={axis === "time"}
        xLabel={xLabel(axis, words)}
        lines={[
          { label: "mean of a report", values: columns.mean, role: 1, thin: true },
          { label: "mean of the last 20 episodes", values: columns.recent, role: 2 },
        ]}
        band={{ low: columns.min, high: columns.max, label: "least – greatest" }}
        height={268}
        sync="run"
        empty={WAITING}
      />
    </Panel>
  );
}

function LengthChart({ columns, axis, words }: EpisodeProps) {
  return (
    <Panel title="Episode length" note={words.length} className="span-4">
      <Chart
        name={`Episode length in ${words.length}`}
        x={columns.x}
        isTime={axis === "time"}
        xLabel={xLabel(axis, words)}
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

function VersionChart({ columns, axis, words }: EpisodeProps) {
  return (
    <Panel title="Policy version" note="that acted" className="span-4">
      <Chart
        name="Policy version that acted"
        x={columns.x}
        isTime={axis === "time"}
        xLabel={xLabel(axis, words)}
        lines={[{ label: "version", values: columns.version, role: 3 }]}
        height={156}
        sync="run"
        steps
        empty={WAITING}
      />
    </Panel>
  );
}

function SpeedChart({ history, words }: { history: History; words: Words }) {
  return (
    <Panel title={`${words.work} per second`} note="since this page was opened" className="span-4">
      <Chart
        name={`${words.work} per second of the whole fleet`}
        x={history.x}
        isTime
        xLabel="time"
        lines={[{ label: `${words.works}/s`, values: history.values[0] ?? [], role: 3 }]}
        height={156}
        floor={0}
        empty="The fleet has not reported yet."
      />
    </Panel>
  );
}

/** Episodes as workers report them, each as soon as it ended. */
export function EpisodeCharts() {
  const { run, episodes, histories } = useRun();
  const [axis, setAxis] = useState<Axis>("time");
  const columns = useMemo(() => episodeColumns(episodes, axis), [episodes, axis]);
  const words = wordsOf(run.kind);
  const choice = (
    <SegmentedControl
      size="xs"
      data={axesOf(words)}
      value={axis}
      aria-label="Horizontal axis"
      onChange={(value) => setAxis(value as Axis)}
    />
  );
  return (
    <>
      <ReturnChart columns={columns} axis={axis} words={words} aside={choice} rows={episodes.length} />
      <LengthChart columns={columns} axis={axis} words={words} />
      <SpeedChart history={histories.speed} words={words} />
      <VersionChart columns={columns} axis={axis} words={words} />
    </>
  );
}
