/** Read-only API queries for the fragments of a fleet run. */

import { queryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type FragmentDetail = Schemas["FragmentDetail"];
export type FragmentContent = Schemas["FragmentContent"];
export type StepCurves = Schemas["StepCurves"];
export type EpisodeDetail = Schemas["EpisodeDetail"];
export type StepWindow = Schemas["StepWindow"];

export const WINDOW_STEPS = 512;
const FRAGMENT_FRESH_MS = 5_000;

export const fragmentQuery = (run: string, fragment: number) =>
  queryOptions({
    queryKey: ["fragment", run, fragment],
    queryFn: (): Promise<FragmentDetail> =>
      body(api.GET("/api/v1/runs/{run}/fragments/{fragment}", { params: { path: { run, fragment: String(fragment) } } })),
    staleTime: FRAGMENT_FRESH_MS,
    retry: false,
  });

export const episodeQuery = (run: string, episode: string) =>
  queryOptions({
    queryKey: ["episode", run, episode],
    queryFn: (): Promise<EpisodeDetail> =>
      body(api.GET("/api/v1/runs/{run}/episodes/detail", { params: { path: { run }, query: { episode } } })),
    staleTime: FRAGMENT_FRESH_MS,
    retry: false,
  });

export const stepsQuery = (run: string, fragment: number, start: number) =>
  queryOptions({
    queryKey: ["fragment", run, fragment, "steps", start],
    queryFn: (): Promise<StepWindow> => {
      const params = { path: { run, fragment: String(fragment) }, query: { start, count: WINDOW_STEPS } };
      return body(api.GET("/api/v1/runs/{run}/fragments/{fragment}/steps", { params }));
    },
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
