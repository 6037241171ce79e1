/** API query of the search for trajectories in all runs. */

import { infiniteQueryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";
import type { TrajectoryQuery } from "@/pages/trajectories/search";
import { preferences } from "@/preferences";

export type TrajectoryRow = components["schemas"]["TrajectoryRow"];

const FRESH_MS = 5_000;

export const trajectoriesQuery = (query: TrajectoryQuery) =>
  infiniteQueryOptions({
    queryKey: ["trajectories", query],
    queryFn: ({ pageParam }) =>
      body(api.GET("/api/v1/trajectories", { params: { query: { ...query, limit: preferences().rows, cursor: pageParam || undefined } } })),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
    staleTime: FRESH_MS,
    // A half-typed filter keeps the last rows.
    placeholderData: (before) => before,
    retry: false,
  });
