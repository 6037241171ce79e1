/** API mutation of tags and notes of groups; each change records its author. */

import { type InfiniteData, type QueryClient, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { GroupDetail } from "@/api/groups";
import type { components } from "@/api/schema";
import type { Mark } from "@/marks/marks";

type Schemas = components["schemas"];
type SampleList = Schemas["TrajectoryList"];
type MarkChange = { groups: number[]; add_tags?: string[]; remove_tags?: string[]; note?: string };
type Marked = { id: number | string; mark: Mark | null };

/** Show the marks of the response in all cached groups; lists are not refetched, so no row moves. */
function show(queries: QueryClient, run: string, marks: Map<number, Mark | null>): void {
  const changed = <M extends Marked>(group: M): M => {
    const mark = "run" in group && group.run !== run ? undefined : marks.get(Number(group.id));
    return mark === undefined ? group : { ...group, mark };
  };
  const inList = (list: SampleList): SampleList => ({ ...list, results: list.results.map(changed) });
  queries.setQueriesData<SampleList | InfiniteData<SampleList>>(
    { queryKey: ["samples"] },
    (old) => old && ("pages" in old ? { ...old, pages: old.pages.map(inList) } : inList(old)),
  );
  queries.setQueriesData<GroupDetail>(
    { queryKey: ["group", run], predicate: ({ queryKey }) => queryKey.length === 3 },
    (old) => old && { ...old, group: changed(old.group) },
  );
}

/** Tag or annotate groups. */
export function useMark(run: string) {
  const queries = useQueryClient();
  const marking = useMutation({
    // In sequence: a tag may be removed before its addition is answered.
    scope: { id: `marks of ${run}` },
    mutationFn: (change: MarkChange) => {
      const content = { add_tags: [], remove_tags: [], reason: "", ...change };
      return body(api.POST("/api/v1/runs/{run}/marks", { params: { path: { run } }, body: content }));
    },
    onSuccess: ({ results }) => {
      show(queries, run, new Map(results.map(({ id, mark }) => [id, mark])));
      void queries.invalidateQueries({ queryKey: ["sample-filter", "values"] });
    },
  });
  /** Resolves when the server has answered; the mutation has the error. */
  const mark = (change: MarkChange) => marking.mutateAsync(change).catch(() => undefined);
  return { ...marking, mark };
}
