/** Mutations that change what cached queries show. */

import { type QueryKey, useMutation, useQueryClient } from "@tanstack/react-query";

/** A mutation after which, also if it was refused, the queries under `queryKey` are read again. */
export function useChange<Wanted, Changed>(queryKey: QueryKey, mutationFn: (wanted: Wanted) => Promise<Changed>) {
  const queries = useQueryClient();
  return useMutation({ mutationFn, onSettled: () => queries.invalidateQueries({ queryKey }) });
}
