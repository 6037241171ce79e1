/** API queries and mutations for group labels, pins, notes and sets; each change records its author. */

import { type InfiniteData, type QueryClient, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { GroupDetail, GroupList, GroupSummary } from "@/api/groups";
import type { components } from "@/api/schema";
import { sessionQuery } from "@/api/session";
import { changedBy, type MarkChange, remarked } from "@/marks/marks";

type Schemas = components["schemas"];
export type MarkVocabulary = Schemas["MarkVocabulary"];

const FRESH_MS = 30_000;

/** Labels and sets of a run. */
export const markWordsQuery = (run: string) =>
  queryOptions({
    queryKey: ["marks", run],
    queryFn: () => body(api.GET("/api/v1/runs/{run}/marks", { params: { path: { run } } })),
    staleTime: FRESH_MS,
  });

type Changed = (group: GroupSummary) => GroupSummary;

/** Apply a change to all cached groups; lists are not refetched, so no row moves. */
function shown(queries: QueryClient, run: string, changed: Changed): void {
  const inList = (list: GroupList | undefined) => list && { ...list, results: list.results.map(changed) };
  queries.setQueriesData<GroupList>({ queryKey: ["groups", run] }, inList);
  queries.setQueriesData<InfiniteData<GroupList>>(
    { queryKey: ["group-pages", run] },
    (old) => old && { ...old, pages: old.pages.map((page) => ({ ...page, results: page.results.map(changed) })) },
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
      void queries.invalidateQueries({ queryKey: ["group-facets", run] });
    },
  });
}

type AskedMark = MarkChange & { groups: number[] };

/** Label, pin or annotate groups. */
export function useMark(run: string) {
  const ask = (change: AskedMark) =>
    body(api.POST("/api/v1/runs/{run}/marks", { params: { path: { run } }, body: { ...change, reason: "" } }));
  return useChange(
    run,
    ask,
    ({ groups, ...change }, by) =>
      (group) =>
        groups.includes(group.id) ? { ...group, mark: remarked(group.mark, change, changedBy(by)) } : group,
  );
}

type AskedSet = { set: string; add?: number[]; remove?: number[] };

/** Add groups to a set, which is created if missing, or remove them. */
export function useChangeSet(run: string) {
  const ask = ({ set, add = [], remove = [] }: AskedSet) =>
    body(api.POST("/api/v1/runs/{run}/sets/{group_set}", { params: { path: { run, group_set: set } }, body: { add, remove, reason: "" } }));
  return useChange(run, ask, ({ set, add = [], remove = [] }) => (group) => {
    const sets = group.mark?.sets ?? [];
    if (add.includes(group.id)) return { ...group, mark: remarked(group.mark, { sets: [...new Set([...sets, set])].sort() }) };
    if (remove.includes(group.id)) return { ...group, mark: remarked(group.mark, { sets: sets.filter((each) => each !== set) }) };
    return group;
  });
}

/** Delete a set; its groups remain. */
export function useDropSet(run: string) {
  const ask = ({ set, reason }: { set: string; reason: string }) =>
    body(api.POST("/api/v1/runs/{run}/sets/{group_set}/drop", { params: { path: { run, group_set: set } }, body: { reason } }));
  return useChange(
    run,
    ask,
    ({ set }) =>
      (group) =>
        group.mark?.sets.includes(set)
          ? { ...group, mark: remarked(group.mark, { sets: group.mark.sets.filter((each) => each !== set) }) }
          : group,
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
