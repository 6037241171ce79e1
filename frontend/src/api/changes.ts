/** Lists that are read page by page, and mutations that change what cached queries show. */

import { infiniteQueryOptions, type QueryKey, useMutation, useQueryClient } from "@tanstack/react-query";

/** A mutation after which, also if it was refused, the queries under the keys are read again. */
export function useChange<Wanted, Changed>(key: QueryKey, mutationFn: (wanted: Wanted) => Promise<Changed>, ...further: QueryKey[]) {
  const queries = useQueryClient();
  const reread = () => Promise.all([key, ...further].map((queryKey) => queries.invalidateQueries({ queryKey })));
  return useMutation({ mutationFn, onSettled: reread });
}

/** A list that the server returns in pages; without a cursor, the first page. */
export function pagesOf<Page extends { next: string | null }>(queryKey: QueryKey, load: (cursor: string | undefined) => Promise<Page>) {
  return infiniteQueryOptions({
    queryKey,
    queryFn: ({ pageParam }) => load(pageParam || undefined),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
  });
}
