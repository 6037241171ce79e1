/** API queries for lists of samples: groups, episodes and fragments of one or more runs. */

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";
import type { SampleSearch } from "@/samples/search";

const SAMPLES_PER_PAGE = 50;

export type Sample = components["schemas"]["SampleRow"];
export type SamplePage = components["schemas"]["TrajectoryList"];

const FRESH_MS = 5_000;
const INDEXING_MS = 1_000;
/** Newest samples that are compared with the loaded ones. */
export const MOST_NEW = 50;

/** Samples of batches that are read for the worst ones. */
export const MOST_OF_BATCHES = 100;

/** A list; without a run, of all runs. */
export type Listed = SampleSearch & { run?: string };

type Range = { limit: number; cursor?: string; from_group?: number; backward?: boolean };

const ask = ({ kind, run, q, sort, columns }: Listed, range: Range) =>
  body(api.GET("/api/v1/trajectories", { params: { query: { kind, run, q, sort, columns, ...range } } }));

export const samplesQuery = (listed: Listed) =>
  infiniteQueryOptions({
    queryKey: ["samples", listed],
    queryFn: ({ pageParam }) => ask(listed, { limit: SAMPLES_PER_PAGE, cursor: pageParam || undefined }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
    // The texts and scores of a large new group follow its row.
    refetchInterval: ({ state }) =>
      state.data?.pages.some(({ results }) => results.some(({ is_indexed }) => !is_indexed)) ? INDEXING_MS : false,
    staleTime: FRESH_MS,
    retry: false,
  });

/** The newest samples of a list; `arrived` changes when the run receives data. */
export const newestQuery = (listed: Listed, arrived: number | undefined) =>
  queryOptions({
    queryKey: ["samples-newest", listed, arrived],
    queryFn: async () => (await ask(listed, { limit: MOST_NEW })).results,
    staleTime: FRESH_MS,
    placeholderData: (before) => before,
    retry: false,
  });

/** The list with only the next group after `group`, or the one before it. */
export const neighbourQuery = (run: string, { q, sort }: SampleSearch, group: number, isBefore: boolean) =>
  queryOptions({
    queryKey: ["samples", { run, q, sort }, "beside", group, isBefore],
    queryFn: () => ask({ run, q, sort }, { from_group: group, limit: 1, ...(isBefore && { backward: true }) }),
    staleTime: FRESH_MS,
  });

export const promptQuery = (run: string, prompt: string, limit: number) =>
  queryOptions({
    queryKey: ["samples", { run, prompt }],
    queryFn: () => ask({ run, q: `prompt:${prompt}` }, { limit }),
    enabled: prompt !== "",
    staleTime: FRESH_MS,
  });

/** The samples of batches with the lowest scores first; fragments are ordered here, as their rewards are in their bytes. */
export const worstQuery = (run: string, kind: "group" | "fragment", q: string) =>
  queryOptions({
    queryKey: ["samples", { run, kind, q }, "worst"],
    queryFn: async () => {
      const { results } = await ask({ run, kind, q, ...(kind === "group" ? { sort: "score" } : {}) }, { limit: MOST_OF_BATCHES });
      return results.sort((one, other) => (one.score ?? Infinity) - (other.score ?? Infinity));
    },
    staleTime: FRESH_MS,
    retry: false,
  });

export const qualifiersQuery = (kind: SampleSearch["kind"]) =>
  queryOptions({
    queryKey: ["sample-filter", kind ?? "group"],
    queryFn: async () => (await body(api.GET("/api/v1/trajectories/filter", { params: { query: { kind } } }))).results,
    staleTime: Number.POSITIVE_INFINITY,
  });

export const VALUES_OF = ["env", "worker", "tag", "run", "project"] as const;

export const valuesQuery =
  ({ kind, run }: Listed) =>
  (of: string, part: string) =>
    queryOptions({
      queryKey: ["sample-filter", "values", kind ?? "group", run ?? "", of, part],
      queryFn: async () => {
        const query = { kind, run, of, part };
        return (await body(api.GET("/api/v1/trajectories/filter/values", { params: { query } }))).results;
      },
      staleTime: 30_000,
    });

/** Keys of metadata and overrides of the newest groups, most frequent first, with their numbers of groups. */
export const factsQuery = (run: string | undefined, enabled: boolean) =>
  queryOptions({
    queryKey: ["sample-columns", run ?? ""],
    queryFn: async () => (await body(api.GET("/api/v1/trajectories/columns", { params: { query: { run } } }))).results,
    enabled,
    staleTime: 30_000,
  });

/** The number of newest samples before the first loaded one; {@link MOST_NEW} is "or more". */
export function newSamples(newest: Sample[], loaded: Sample[]): number {
  const [first] = loaded;
  if (!first) return newest.length;
  const place = newest.findIndex(({ id, run }) => id === first.id && run === first.run);
  return place < 0 ? newest.length : place;
}
