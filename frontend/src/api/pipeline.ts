/** API queries for the data flow of a run. */

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

export type Pipeline = components["schemas"]["Pipeline"];
export type PipelineStage = components["schemas"]["PipelineStage"];
export type Diagnosis = components["schemas"]["PipelineDiagnosis"];
export type StageName = PipelineStage["name"];

const EVERY_MS = 2_000;

export function pipelineQuery(run: string) {
  return queryOptions({
    queryKey: ["pipeline", run],
    queryFn: (): Promise<Pipeline> => body(api.GET("/api/v1/runs/{run}/pipeline", { params: { path: { run } } })),
    refetchInterval: EVERY_MS,
    placeholderData: keepPreviousData,
  });
}
