/** API queries for the data flow of a run. */

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, at, body } from "@/api/client";
import type { components } from "@/api/schema";

export type Pipeline = components["schemas"]["Pipeline"];
export type PipelineStage = components["schemas"]["PipelineStage"];
export type Diagnosis = components["schemas"]["PipelineDiagnosis"];
export type StageName = PipelineStage["name"];

export const pipelineQuery = (run: string) =>
  queryOptions({
    queryKey: ["pipeline", run],
    queryFn: (): Promise<Pipeline> => body(api.GET("/api/v1/runs/{run}/pipeline", at(run))),
    refetchInterval: 2_000,
    placeholderData: keepPreviousData,
  });
