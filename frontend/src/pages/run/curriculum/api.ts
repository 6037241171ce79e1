/** API queries and mutations for the lessons of a language run: status, transitions, evaluations. */

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, at, body, results, useChange } from "@/api/client";
import type { LessonRow } from "@/api/types";

const ROWS = 200;
const PASSES = 3;
/** Polling interval without a socket. */
const LOOK_AGAIN_MS = 15_000;
/** Each revision of the curriculum has a key of its own. */
const REVISED = { placeholderData: keepPreviousData, gcTime: 10_000 };

/** The lessons at a revision of the curriculum. */
export const lessonsQuery = (run: string, revision: number) =>
  queryOptions({
    queryKey: ["lessons", run, revision],
    ...REVISED,
    refetchInterval: LOOK_AGAIN_MS,
    queryFn: () => body(api.GET("/api/v1/runs/{run}/lessons", at(run))),
  });

export const historyQuery = (run: string, lesson: string, revision: number) =>
  queryOptions({
    queryKey: ["lesson-history", run, lesson, revision],
    ...REVISED,
    queryFn: () => results(api.GET("/api/v1/runs/{run}/lessons/history", { params: { path: { run }, query: { lesson, limit: ROWS } } })),
  });

const ofLesson = (run: string, lesson: string) => ({ path: { run, lesson } });

/** The newest passes over a lesson: the state of each of its problems, counted. */
export const passesQuery = (run: string, lesson: string, revision: number) =>
  queryOptions({
    queryKey: ["lesson-passes", run, lesson, revision],
    ...REVISED,
    queryFn: () =>
      results(api.GET("/api/v1/runs/{run}/lessons/{lesson}/passes", { params: { ...ofLesson(run, lesson), query: { limit: PASSES } } })),
  });

/** The newest problems that a pass has skipped. */
export const skippedQuery = (run: string, lesson: string, revision: number) =>
  queryOptions({
    queryKey: ["lesson-skipped", run, lesson, revision],
    ...REVISED,
    queryFn: () =>
      results(
        api.GET("/api/v1/runs/{run}/lessons/{lesson}/problems", {
          params: { ...ofLesson(run, lesson), query: { state: "skipped", limit: ROWS } },
        }),
      ),
  });

/** The newest evaluations of a lesson; the newest one with its answers. */
export const evaluationsQuery = (run: string, lesson: string, revision: number) =>
  queryOptions({
    queryKey: ["evaluations", run, lesson, revision],
    ...REVISED,
    queryFn: () =>
      results(api.GET("/api/v1/runs/{run}/evaluations", { params: { path: { run }, query: { lesson, limit: ROWS, samples: 1 } } })),
  });

/** One evaluation with its answers; immutable once finished. */
export const evaluationQuery = (run: string, evaluation: string) =>
  queryOptions({
    queryKey: ["evaluation", run, evaluation],
    queryFn: () => body(api.GET("/api/v1/runs/{run}/evaluations/{evaluation}", { params: { path: { run, evaluation } } })),
  });

/** Request evaluations of lessons; an empty list means all unlocked lessons. */
export const useRequestEvaluations = (run: string) =>
  useChange(["evaluations", run], (wanted: { lessons: string[]; reason: string }) =>
    body(api.POST("/api/v1/runs/{run}/evaluations", { ...at(run), body: wanted })),
  );

export type Steering = { lesson: string; hold: Exclude<LessonRow["hold"], "stopped">; weight_factor: number; reason: string };

/** Override the curriculum for a lesson, or end the override. */
export const useSteerLesson = (run: string) =>
  useChange(
    ["lessons", run],
    ({ lesson, ...wanted }: Steering) =>
      body(api.PUT("/api/v1/runs/{run}/lessons/{lesson}/steering", { params: { path: { run, lesson } }, body: wanted })),
    ["lesson-history", run],
  );
