import { mayMeasure } from "@/api/metrics";
import type { MetricAxis } from "@/api/types";
import type { Ends } from "@/charts/names";
import type { Columns } from "@/components/panels";
import { type MarkedEvents, useMarks } from "@/pages/run/marks";
import { useRun } from "@/pages/run/RunContext";
import type { PanelSpec } from "@/wall/panels";
import { PRESET_POINTS } from "@/wall/presets";
import { useWallView } from "@/wall/useWallView";
import { Wall } from "@/wall/Wall";

type Props = {
  panels: readonly PanelSpec[];
  /** Names that all panels are requested with; defaults to theirs. */
  together?: readonly string[];
  /** The x axis; defaults to the time. */
  axis?: MetricAxis;
  range: Ends;
  onRange: (range: Ends) => void;
  className?: string;
  columns?: Columns;
  /** Which changes are marked; defaults to those of the run. */
  events?: MarkedEvents;
  current?: Record<string, number | null>;
};

/** Panels of the open run on one axis, with a range of their own. */
export function RunWall({ panels, together, axis = "time", range, onRange, className, columns, events, current }: Props) {
  const { run } = useRun();
  const marks = useMarks(run, axis, events);
  const view = useWallView({
    runs: [run.name],
    kinds: [run.kind],
    view: range,
    usual: axis,
    points: PRESET_POINTS,
    sync: axis,
    marks,
    isLive: mayMeasure(run.status),
    change: ({ from, to }) => onRange({ from, to }),
  });
  return <Wall panels={panels} together={together} view={view} className={className} columns={columns} current={current} />;
}
