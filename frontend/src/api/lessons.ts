/** Read the lessons of a language run, how they moved, and how they were evaluated. */

import { queryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";

const ROWS = 200;
/** Without a socket nobody says when to look again. */
const LOOK_AGAIN_MS = 15_000;

/** The lessons as they are at a revision of the curriculum. */
export function lessonsQuery(run: string, revision: number) {
  return queryOptions({
    queryKey: ["lessons", run, revision],
    queryFn: () => body(api.GET("/api/runs/{run}/lessons", { params: { path: { run } } })),
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
      return (await body(api.GET("/api/runs/{run}/lessons/history", { params: { path: { run }, query } }))).results;
    },
    placeholderData: (shown) => shown,
    gcTime: 10_000,
  });
}

export function evaluationsQuery(run: string, lesson: string, revision: number) {
  return queryOptions({
    queryKey: ["evaluations", run, lesson, revision],
    queryFn: async () => {
      const query = { lesson, limit: ROWS, samples: 1 };
      return (await body(api.GET("/api/runs/{run}/evaluations", { params: { path: { run }, query } }))).results;
    },
    placeholderData: (shown) => shown,
    gcTime: 10_000,
  });
}
