/** Deployment-wide live topics: machines and session. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import type { Cluster } from "@/api/deployment";
import { sessionQuery, useSession } from "@/api/session";
import type { RunRow } from "@/api/types";
import type { PartOf } from "@/live/frames";
import { usePart, useTopicError } from "@/live/live";

/** The parts of the deployment; only administrators receive addresses. */
export function useCluster(): { cluster: Cluster | undefined; refused: string | undefined } {
  const topic = useSession()?.role === "admin" ? "cluster_admin" : "cluster";
  return { cluster: usePart(topic, "cluster"), refused: useTopicError(topic)?.detail };
}

const NO_RUNS: NonNullable<PartOf<"runs", "active">> = [];
const NO_HEARTBEATS: NonNullable<PartOf<"runs", "heartbeats">> = [];

/** The newest runs, unordered: active ones, which change often, and inactive ones. */
export function useLiveRuns(): RunRow[] {
  const active = usePart("runs", "active") ?? NO_RUNS;
  const resting = usePart("runs", "resting") ?? NO_RUNS;
  const heartbeats = usePart("runs", "heartbeats") ?? NO_HEARTBEATS;
  return useMemo(() => {
    const heard = new Map(heartbeats.map(({ run_id, observed_at }) => [run_id, observed_at]));
    return [...active.map((run) => ({ ...run, observed_at: heard.get(run.id) ?? null })), ...resting];
  }, [active, resting, heartbeats]);
}

/** The notice to all users; undefined until loaded. */
export function useNotice() {
  return usePart("me", "notice");
}

/** Keep the session current: a changed role applies immediately, an ended session signs out. */
export function useOwnSession(): void {
  const session = usePart("me", "session");
  const queries = useQueryClient();
  useEffect(() => {
    if (session) queries.setQueryData(sessionQuery.queryKey, session);
  }, [session, queries]);
}
