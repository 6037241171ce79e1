/** The selected runs, kept up to date by the live list. */

import { useQueries } from "@tanstack/react-query";
import { runQuery } from "@/api/runs";
import type { RunDetail } from "@/api/types";
import { useLiveRuns } from "@/live/deployment";

export type ComparedRun = {
  name: string;
  /** Undefined while loading, or if the run does not exist. */
  run?: RunDetail;
  /** Last heartbeat of the fleet. */
  observedAt?: string | null;
  fleetReason?: string;
  problem?: string;
  isPending: boolean;
};

export function useComparedRuns(names: string[]): ComparedRun[] {
  const live = useLiveRuns();
  const found = useQueries({ queries: names.map((name) => runQuery(name)) });
  return names.map((name, i) => {
    const { data, error } = found[i] ?? {};
    const now = live.find(({ id }) => id === data?.id);
    const run = data && now ? { ...data, ...now, config: data.config } : data;
    return { name, run, observedAt: now?.observed_at, fleetReason: now?.fleet_reason, problem: error?.message, isPending: !data && !error };
  });
}
