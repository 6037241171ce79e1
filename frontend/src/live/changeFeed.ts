/** Refetch queries when their live topic changes. */

import { type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import type { PartName, TopicName } from "@/live/frames";
import { useLiveStatus, usePart } from "@/live/live";
import { askEveryMs, Rereading } from "@/live/refetching";

/** Invalidate query keys when `news` changes, at a limited rate; return the fallback refetch interval. */
export function useChangeFeed(news: unknown, atMostEveryMs: number, ...keys: QueryKey[]): number {
  const queries = useQueryClient();
  const { mode } = useLiveStatus();
  const words = JSON.stringify(keys);
  const rereading = useMemo(() => {
    const read = () => {
      for (const queryKey of JSON.parse(words) as QueryKey[]) void queries.invalidateQueries({ queryKey });
    };
    return new Rereading(read, atMostEveryMs);
  }, [queries, words, atMostEveryMs]);
  useEffect(() => rereading.hear(news), [rereading, news]);
  useEffect(() => () => rereading.leave(), [rereading]);
  return askEveryMs(mode, atMostEveryMs);
}

/** The same for a part of a topic. */
export function usePartChangeFeed<T extends TopicName, N extends PartName<T>>(
  topic: T,
  part: N,
  atMostEveryMs: number,
  ...keys: QueryKey[]
): number {
  return useChangeFeed(usePart(topic, part), atMostEveryMs, ...keys);
}
