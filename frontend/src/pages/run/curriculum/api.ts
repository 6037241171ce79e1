/** API queries and mutations for the lessons of a language run: status, transitions, evaluations. */

import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, ask, body } from "@/api/client";
import type { LessonRow } from "@/api/types";

const ROWS = 200;
/** Polling interval without a socket. */
const LOOK_AGAIN_MS = 15_000;

/** The lessons at a revision of the curriculum. */
export function lessonsQuery(run: string, revision: number) {
  return ask(["lessons", run, revision], () => api.GET("/api/v1/runs/{run}/lessons", { params: { path: { run } } }), {
    placeholderData: (shown) => shown,
    refetchInterval: LOOK_AGAIN_MS,
    gcTime: 10_000,
  });
}

export function historyQuery(run: string, lesson: string, revision: number) {
  return queryOptions({
    queryKey: ["lesson-history", run, lesson, revision],
    queryFn: async () => {
      const query = { lesson, limit: ROWS };
      return (await body(api.GET("/api/v1/runs/{run}/lessons/history", { params: { path: { run }, query } }))).results;
    },
    placeholderData: (shown) => shown,
    gcTime: 10_000,
  });
}

/** The newest evaluations of a lesson; the newest one with its answers. */
export function evaluationsQuery(run: string, lesson: string, revision: number) {
  return queryOptions({
    queryKey: ["evaluations", run, lesson, revision],
    queryFn: async () => {
      const query = { lesson, limit: ROWS, samples: 1 };
      return (await body(api.GET("/api/v1/runs/{run}/evaluations", { params: { path: { run }, query } }))).results;
    },
    placeholderData: (shown) => shown,
    gcTime: 10_000,
  });
}

/** One evaluation with its answers; immutable once finished. */
export function evaluationQuery(run: string, evaluation: string) {
  return ask(["evaluation", run, evaluation], () =>
    api.GET("/api/v1/runs/{run}/evaluations/{evaluation}", { params: { path: { run, evaluation } } }),
  );
}

/** Micro-evaluations of a lesson, newest first. */
export function microEvaluationsQuery(run: string, lesson: string, revision: number) {
  return queryOptions({
    queryKey: ["micro-evaluations", run, lesson, revision],
    queryFn: async () => {
      const params = { path: { run, lesson }, query: { limit: ROWS } };
      return (await body(api.GET("/api/v1/runs/{run}/lessons/{lesson}/micro-evaluations", { params }))).results;
    },
    placeholderData: (shown) => shown,
    gcTime: 10_000,
  });
}

/** Request evaluations of lessons; an empty list means all unlocked lessons. */
export function useRequestEvaluations(run: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (wanted: { lessons: string[]; reason: string }) =>
      body(api.POST("/api/v1/runs/{run}/evaluations", { params: { path: { run } }, body: wanted })),
    onSettled: () => client.invalidateQueries({ queryKey: ["evaluations", run] }),
  });
}

export type Steering = { lesson: string; hold: Exclude<LessonRow["hold"], "stopped">; weight_factor: number; reason: string };

/** Override the curriculum for a lesson, or end the override. */
export function useSteerLesson(run: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ lesson, ...wanted }: Steering) =>
      body(api.PUT("/api/v1/runs/{run}/lessons/{lesson}/steering", { params: { path: { run, lesson } }, body: wanted })),
    onSettled: () =>
      Promise.all([
        client.invalidateQueries({ queryKey: ["lessons", run] }),
        client.invalidateQueries({ queryKey: ["lesson-history", run] }),
      ]),
  });
}
