/** What is asked for the curves of an overview: while its page is loaded, and while somebody looks at it. */

import { type MetricAxis, mayMeasure, namedLinesQuery, type Span } from "@/api/metrics";
import type { RunDetail } from "@/api/types";
import { spanOf } from "@/charts/spans";
import { namesOfAll } from "@/pages/run/overview/curated";
import type { OverviewSearch } from "@/pages/run/overview/search";

export type Look = {
  run: string;
  axis: MetricAxis;
  xLabel: string;
  span?: Span;
  isLive: boolean;
  /** Of all that is drawn beside each other: asked for together. */
  names: readonly string[];
};

const POINTS = 240;

/** Where on the run is looked, which an address says without knowing the run. */
const placeOf = (run: string, search: OverviewSearch) => ({
  run,
  axis: search.x ?? ("time" as const),
  span: spanOf(search),
  names: namesOfAll,
});

/** What of a run is looked at; the same for all its curves. */
export function lookOf(run: RunDetail, search: OverviewSearch): Look {
  const place = placeOf(run.name, search);
  const labels = { time: "time", step: "train step", amount: run.kind === "fleet" ? "env step" : "token" };
  return { ...place, xLabel: labels[place.axis], isLive: mayMeasure(run.status) };
}

export const curvesQuery = ({ run, axis, span, isLive, names }: Omit<Look, "xLabel">) =>
  namedLinesQuery({ run, names, axis, span, points: POINTS, isLive });

/** The same question before anything is known of the run. */
export const earlyCurvesQuery = (run: string, search: OverviewSearch) => curvesQuery({ ...placeOf(run, search), isLive: false });
