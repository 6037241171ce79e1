/** Annotations and events of a run on its charts. */

import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, ask, at, body, useChange } from "@/api/client";
import type { components } from "@/api/schema";
import type { MetricAxis, RunDetail } from "@/api/types";
import type { Mark } from "@/charts/model";
import { usePartChangeFeed } from "@/live/live";

type Schemas = components["schemas"];
export type Annotation = Schemas["AnnotationRow"];
export type Annotations = Schemas["Annotations"];
type NewAnnotation = Schemas["NewAnnotationRequest"];

const REREAD_MS = 15_000;

/** Changes of the run only, or also launches, ended workers and published versions. */
export type MarkedEvents = "run" | "fleet";

export function annotationsQuery(run: string, events: MarkedEvents = "run") {
  const query = events === "run" ? {} : { events };
  return ask(["annotations", run, ...Object.values(query)], () =>
    api.GET("/api/v1/runs/{run}/annotations", { params: { path: { run }, query } }),
  );
}

export const useAnnotate = (run: string) =>
  useChange(annotationsQuery(run).queryKey, (annotation: NewAnnotation) =>
    body(api.POST("/api/v1/runs/{run}/annotations", { ...at(run), body: annotation })),
  );

export const useDeleteAnnotation = (run: string, annotation: number) =>
  useChange(annotationsQuery(run).queryKey, (reason: string) => {
    const params = { path: { run, annotation: String(annotation) }, query: { reason } };
    return body(api.DELETE("/api/v1/runs/{run}/annotations/{annotation}", { params }));
  });

type Placed = { at: string; step: number | null; amount: number | null };

const PLACE: Record<MetricAxis, (placed: Placed, beganAt: string) => number | null> = {
  time: ({ at }) => Date.parse(at) / 1000,
  elapsed: ({ at }, beganAt) => (Date.parse(at) - Date.parse(beganAt)) / 1000,
  step: ({ step }) => step,
  amount: ({ amount }) => amount,
};

/** The marks of a run on one axis; those without a position on it are omitted. */
export function marksOf(found: Annotations | undefined, axis: MetricAxis, beganAt: string): Mark[] {
  if (!found) return [];
  const place = (placed: Placed): number | null => PLACE[axis](placed, beganAt);
  const notes = found.results.map((row): Mark | null => {
    const x = place(row);
    return x === null ? null : { x, text: `${row.text} (${row.created_by})`, role: "note" };
  });
  const events = found.events.map((row): Mark | null => {
    const x = place(row);
    return x === null ? null : { x, text: row.message, role: row.kind === "weights_version" ? "version" : "event" };
  });
  return [...events, ...notes].filter((mark) => mark !== null);
}

export function useMarks(run: RunDetail, axis: MetricAxis, events?: MarkedEvents): Mark[] {
  const refetchInterval = usePartChangeFeed(`run:${run.name}`, "metrics", REREAD_MS, ["annotations", run.name]);
  const { data } = useQuery({ ...annotationsQuery(run.name, events), refetchInterval });
  const beganAt = run.trainer_started_at ?? run.created_at;
  return useMemo(() => marksOf(data, axis, beganAt), [data, axis, beganAt]);
}
