/** Ask for the curves of an overview: while its page is loaded, and while somebody looks at it. */

import type { QueryClient } from "@tanstack/react-query";
import { mayMeasure, type MetricAxis, metricLinesQuery, type Span } from "@/api/metrics";
import type { RunDetail } from "@/api/types";
import { spanOf } from "@/charts/spans";
import { type Curated, curatedOf, namesOf } from "@/pages/run/overview/curated";
import type { OverviewSearch } from "@/pages/run/overview/search";

export type Look = { run: string; axis: MetricAxis; xLabel: string; span?: Span; isLive: boolean };

const POINTS = 240;

/** What of a run is looked at; the same for all its curves. */
export function lookOf(run: RunDetail, search: OverviewSearch): Look {
  const axis = search.x ?? "time";
  const labels = { time: "time", step: "train step", amount: run.kind === "fleet" ? "env step" : "token" };
  return { run: run.name, axis, xLabel: labels[axis], span: spanOf(search), isLive: mayMeasure(run.status) };
}

export const curveQuery = (chart: Curated, { run, axis, span, isLive }: Look) =>
  metricLinesQuery({ runs: [run], name: namesOf(chart), axis, span, points: POINTS, isLive });

/** Ask for all curves of a run before there is a page that shows them. */
export function askEarly(queries: QueryClient, run: RunDetail, search: OverviewSearch): void {
  const look = lookOf(run, search);
  for (const chart of curatedOf(run.kind)) void queries.prefetchQuery(curveQuery(chart, look));
}
