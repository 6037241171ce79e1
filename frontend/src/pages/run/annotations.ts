/** API queries and mutations for chart annotations of a run. */

import { queryOptions } from "@tanstack/react-query";
import { useChange } from "@/api/changes";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type Annotation = Schemas["AnnotationRow"];
export type Annotations = Schemas["Annotations"];
type NewAnnotation = Schemas["NewAnnotationRequest"];

const REREAD_MS = 15_000;

/** Changes of the run only, or also launches, ended workers and published versions. */
export type MarkedEvents = "run" | "fleet";

export function annotationsQuery(run: string, events: MarkedEvents = "run") {
  const query = events === "run" ? {} : { events };
  return queryOptions({
    queryKey: ["annotations", run, ...Object.values(query)],
    queryFn: (): Promise<Annotations> => body(api.GET("/api/v1/runs/{run}/annotations", { params: { path: { run }, query } })),
    refetchInterval: REREAD_MS,
  });
}

export function useAnnotate(run: string) {
  return useChange(annotationsQuery(run).queryKey, (annotation: NewAnnotation) =>
    body(api.POST("/api/v1/runs/{run}/annotations", { params: { path: { run } }, body: annotation })),
  );
}

export function useDeleteAnnotation(run: string, annotation: number) {
  return useChange(annotationsQuery(run).queryKey, (reason: string) =>
    body(
      api.DELETE("/api/v1/runs/{run}/annotations/{annotation}", {
        params: { path: { run, annotation: String(annotation) }, query: { reason } },
      }),
    ),
  );
}
