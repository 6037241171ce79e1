/** What the queue tab keeps in its address. Pure. */

import type { BatchState } from "@/api/queue";
import { metricsSearch } from "@/pages/run/metrics/search";

type QueueSearch = {
  /** The batch that is looked into. */
  batch?: string;
  state?: BatchState;
  /** The part of the depth's curve that is looked at. */
  from?: number;
  to?: number;
};

const STATES: BatchState[] = ["leased", "returned", "quarantined", "confirmed", "dropped"];

/** Read an address; what makes no sense is left out. */
export function queueSearch(search: Record<string, unknown>): QueueSearch {
  const { from, to } = metricsSearch(search);
  const { batch, state } = search;
  return {
    batch: typeof batch === "string" || typeof batch === "number" ? String(batch) : undefined,
    state: STATES.find((each) => each === state),
    from,
    to,
  };
}
