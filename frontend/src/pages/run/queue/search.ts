/** URL parameters of the queue tab. Pure. */

import type { BatchState } from "@/api/queue";
import { endsOn } from "@/charts/names";
import { LOOKS } from "@/pages/run/queue/batches";

type QueueSearch = {
  /** The open batch. */
  batch?: string;
  state?: BatchState;
  /** The visible range of the depth chart. */
  from?: number;
  to?: number;
};

/** Parse search parameters; invalid values are dropped. */
export function queueSearch(search: Record<string, unknown>): QueueSearch {
  const { batch, state } = search;
  return {
    batch: typeof batch === "string" || typeof batch === "number" ? String(batch) : undefined,
    state: Object.hasOwn(LOOKS, String(state)) ? (state as BatchState) : undefined,
    ...endsOn("time", search),
  };
}
