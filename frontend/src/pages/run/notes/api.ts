/** API queries and mutations for the notes of a run. */

import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type Notes = Schemas["Notes"];

export function notesQuery(run: string) {
  return queryOptions({
    queryKey: ["notes", run],
    queryFn: (): Promise<Notes> => body(api.GET("/api/v1/runs/{run}/notes", { params: { path: { run } } })),
    staleTime: 5_000,
  });
}

type Written = { text: string; revision: number; reason: string };

export function useWriteNotes(run: string) {
  const queries = useQueryClient();
  const { queryKey } = notesQuery(run);
  return useMutation({
    mutationFn: (written: Written): Promise<Notes> =>
      body(api.PUT("/api/v1/runs/{run}/notes", { params: { path: { run } }, body: written })),
    onSuccess: (notes) => queries.setQueryData(queryKey, notes),
    // Conflict: show the other author's text above the refused one.
    onError: () => queries.invalidateQueries({ queryKey }),
  });
}
