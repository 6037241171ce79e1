/** API queries for the data flow of a run. */

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

export type Pipeline = components["schemas"]["Pipeline"];
export type PipelineStage = components["schemas"]["PipelineStage"];
export type Diagnosis = components["schemas"]["PipelineDiagnosis"];
export type StageName = PipelineStage["name"];

const EVERY_MS = 2_000;
const DIAGNOSES_EVERY_MS = 10_000;
/** Maximum number of runs that the server diagnoses per request. */
export const DIAGNOSES_AT_MOST = 12;

export function pipelineQuery(run: string) {
  return queryOptions({
    queryKey: ["pipeline", run],
    queryFn: (): Promise<Pipeline> => body(api.GET("/api/v1/runs/{run}/pipeline", { params: { path: { run } } })),
    refetchInterval: EVERY_MS,
    placeholderData: keepPreviousData,
  });
}

/** Diagnoses of a few runs, by id; identical to those on each run's page. */
export function diagnosesQuery(ids: number[]) {
  return queryOptions({
    queryKey: ["run-diagnoses", ids],
    queryFn: async () => (await body(api.GET("/api/v1/run-diagnoses", { params: { query: { ids: ids.join(",") } } }))).results,
    enabled: ids.length > 0,
    refetchInterval: DIAGNOSES_EVERY_MS,
    placeholderData: keepPreviousData,
  });
}
