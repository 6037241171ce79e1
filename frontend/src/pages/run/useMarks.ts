/** The annotations on a run's charts. */

import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { MetricAxis, RunDetail } from "@/api/types";
import type { Mark } from "@/charts/model";
import { annotationsQuery, type MarkedEvents } from "@/pages/run/annotations";
import { marksOf, type Shown } from "@/pages/run/marks";

export function useMarks(run: RunDetail, axis: MetricAxis, shown: Shown = "all", events?: MarkedEvents): Mark[] {
  const { data } = useQuery(annotationsQuery(run.name, events));
  const beganAt = run.trainer_started_at ?? run.created_at;
  return useMemo(() => marksOf(data, axis, beganAt, shown), [data, axis, beganAt, shown]);
}
