/** The view of a comparison: x axis, range and resolution. Pure. */

import { mayMeasure, type Span } from "@/api/metrics";
import type { MetricAxis } from "@/api/types";
import { namesOf } from "@/charts/names";
import { spanOf } from "@/charts/spans";
import type { Spread } from "@/charts/spread";
import type { RunKind } from "@/pages/run/metricOrder";
import { type Group, groupsOf } from "./grouping";
import type { CompareSearch } from "./search";
import type { ComparedRun } from "./useComparedRuns";

export type ComparisonView = {
  /** Names of the existing runs. */
  runs: string[];
  kinds: RunKind[];
  /** Index of each run among the selected runs, which selects its style. */
  places: Map<string, number>;
  axis: MetricAxis;
  span?: Span;
  points: number;
  smooth: number;
  isLive: boolean;
  /** Groups of the visible runs; null without grouping. */
  groups: Group[] | null;
  spread: Spread;
  /** Label of the x axis, and the unit of a width on it. */
  xLabel: string;
  unit: string;
};

const FEW_RUNS = 8;
const [POINTS, POINTS_OF_MANY] = [600, 300];

/** The unit in which runs of these kinds count their data. */
function amountOf(kinds: RunKind[]): string {
  const areFleets = new Set(kinds.map((kind) => kind === "fleet"));
  if (areFleets.size > 1) return "tokens or env steps";
  return areFleets.has(true) ? "env steps" : "tokens served";
}

export function viewOf(chosen: ComparedRun[], search: CompareSearch): ComparisonView {
  const { x: axis = "step", smooth = 0 } = search;
  const there = chosen.flatMap(({ run }) => run ?? []);
  const hidden = namesOf(search.hide);
  const visible = there.filter(({ name }) => !hidden.includes(name));
  const amount = amountOf(there.map(({ kind }) => kind));
  const isSeconds = axis === "time" || axis === "elapsed";
  return {
    runs: there.map(({ name }) => name),
    kinds: [...new Set(there.map(({ kind }) => kind))],
    places: new Map(chosen.map(({ name }, i) => [name, i])),
    axis,
    span: spanOf(search),
    points: there.length > FEW_RUNS ? POINTS_OF_MANY : POINTS,
    smooth,
    groups: search.by ? groupsOf(visible, search.by) : null,
    spread: search.spread ?? "deviation",
    isLive: there.some(({ status }) => mayMeasure(status)),
    xLabel: { step: "train step", time: "time", elapsed: "since the start of the run", amount }[axis],
    unit: isSeconds ? "s" : axis === "step" ? "steps" : amount,
  };
}
