/** Know the runs that were chosen: as they were asked for, and as the live list says they are now. */

import { useQueries } from "@tanstack/react-query";
import { runQuery } from "@/api/runs";
import type { RunDetail } from "@/api/types";
import { useDeckRuns } from "@/live/deck";

export type Chosen = {
  name: string;
  /** Undefined while it is asked for, and where there is none. */
  run?: RunDetail;
  /** Last proof of its fleet's state. */
  observedAt?: string | null;
  fleetReason?: string;
  problem?: string;
  isPending: boolean;
};

export function useChosen(names: string[]): Chosen[] {
  const live = useDeckRuns();
  const found = useQueries({ queries: names.map((name) => runQuery(name)) });
  return names.map((name, i) => {
    const { data, error } = found[i] ?? {};
    const now = live.find(({ id }) => id === data?.id);
    const run = data && now ? { ...data, ...now, config: data.config } : data;
    return { name, run, observedAt: now?.observed_at, fleetReason: now?.fleet_reason, problem: error?.message, isPending: !data && !error };
  });
}
