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

/** One revision of the notes; immutable. */
export function noteQuery(run: string, revision: number) {
  return queryOptions({
    queryKey: ["notes", run, revision],
    queryFn: () => body(api.GET("/api/v1/runs/{run}/notes/{revision}", { params: { path: { run, revision: String(revision) } } })),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

export type Written = { text: string; revision: number; reason: string };

export function useWriteNotes(run: string) {
  const queries = useQueryClient();
  const { queryKey } = notesQuery(run);
  return useMutation({
    mutationFn: (written: Written): Promise<Notes> =>
      body(api.PUT("/api/v1/runs/{run}/notes", { params: { path: { run } }, body: written })),
    onSuccess: (notes) => queries.setQueryData(queryKey, notes),
    // Conflict: show the other author's revision beside the rejected text.
    onError: () => queries.invalidateQueries({ queryKey, exact: true }),
  });
}
