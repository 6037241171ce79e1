/** Queries of the overview charts, used by the route loader and the page. */

import { mayMeasure, namedLinesQuery, type Span } from "@/api/metrics";
import type { MetricAxis, RunDetail } from "@/api/types";
import { spanOf } from "@/charts/spans";
import { namesOfAll } from "@/pages/run/overview/defaultCharts";
import type { OverviewSearch } from "@/pages/run/overview/search";

export type Look = {
  run: string;
  axis: MetricAxis;
  xLabel: string;
  span?: Span;
  isLive: boolean;
  /** Names of all charts on the page, requested together. */
  names: readonly string[];
};

const POINTS = 240;

/** Axis and range from the URL, independent of the run. */
const placeOf = (run: string, search: OverviewSearch) => ({
  run,
  axis: search.x ?? ("time" as const),
  span: spanOf(search),
  names: namesOfAll,
});

/** The view of a run, shared by all its charts. */
export function lookOf(run: RunDetail, search: OverviewSearch): Look {
  const place = placeOf(run.name, search);
  const labels = { time: "time", step: "train step", amount: run.kind === "fleet" ? "env step" : "token" };
  return { ...place, xLabel: labels[place.axis], isLive: mayMeasure(run.status) };
}

export const curvesQuery = ({ run, axis, span, isLive, names }: Omit<Look, "xLabel">) =>
  namedLinesQuery({ run, names, axis, span, points: POINTS, isLive });

/** The same query before the run is loaded. */
export const earlyCurvesQuery = (run: string, search: OverviewSearch) => curvesQuery({ ...placeOf(run, search), isLive: false });
