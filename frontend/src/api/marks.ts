/** API queries and mutations for labels and notes of groups; each change records its author. */

import { type InfiniteData, type QueryClient, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { GroupDetail } from "@/api/groups";
import type { components } from "@/api/schema";
import { sessionQuery } from "@/api/session";
import { changedBy, type Mark, type MarkChange, remarked } from "@/marks/marks";

type Schemas = components["schemas"];
export type MarkVocabulary = Schemas["MarkVocabulary"];

const FRESH_MS = 30_000;

/** Labels of a run. */
export const markWordsQuery = (run: string) =>
  queryOptions({
    queryKey: ["marks", run],
    queryFn: () => body(api.GET("/api/v1/runs/{run}/marks", { params: { path: { run } } })),
    staleTime: FRESH_MS,
  });

type Marked = { id: number | string; mark: Mark | null };
type Changed = <M extends Marked>(group: M) => M;
type SampleList = Schemas["TrajectoryList"];

/** Apply a change to all cached groups; lists are not refetched, so no row moves. */
function shown(queries: QueryClient, run: string, changed: Changed): void {
  const inRun: Changed = (group) => ("run" in group && group.run !== run ? group : changed(group));
  const inList = (list: SampleList): SampleList => ({ ...list, results: list.results.map(inRun) });
  queries.setQueriesData<SampleList | InfiniteData<SampleList>>(
    { queryKey: ["samples"] },
    (old) => old && ("pages" in old ? { ...old, pages: old.pages.map(inList) } : inList(old)),
  );
  queries.setQueriesData<GroupDetail>(
    { queryKey: ["group", run], predicate: ({ queryKey }) => queryKey.length === 3 },
    (old) => old && { ...old, group: changed(old.group) },
  );
}

/** Shared mutation: the response is the run's new vocabulary. */
function useChange<T>(run: string, ask: (change: T) => Promise<MarkVocabulary>, change: (asked: T, by: string) => Changed | null) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ask,
    onSuccess: (words, asked) => {
      queries.setQueryData(markWordsQuery(run).queryKey, words);
      const by = queries.getQueryData(sessionQuery.queryKey)?.username ?? "";
      const changed = change(asked, by);
      if (changed) shown(queries, run, changed);
    },
  });
}

type AskedMark = MarkChange & { groups: number[] };

/** Label or annotate groups. */
export function useMark(run: string) {
  const ask = (change: AskedMark) =>
    body(api.POST("/api/v1/runs/{run}/marks", { params: { path: { run } }, body: { ...change, reason: "" } }));
  return useChange(
    run,
    ask,
    ({ groups, ...change }, by) =>
      (group) =>
        groups.includes(Number(group.id)) ? { ...group, mark: remarked(group.mark, change, changedBy(by)) } : group,
  );
}

/** Name the labels of a run. */
export function useNameLabels(run: string) {
  const ask = async (names: { label: number; name: string }[]) => {
    let words: MarkVocabulary | undefined;
    // In sequence: each response holds all names.
    for (const { label, name } of names) {
      words = await body(
        api.PUT("/api/v1/runs/{run}/labels/{label}", { params: { path: { run, label: String(label) } }, body: { name, reason: "" } }),
      );
    }
    return words as MarkVocabulary;
  };
  return useChange(run, ask, () => null);
}
