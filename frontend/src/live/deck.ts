/** Read the live topics of the deck: its machines, its audit, and who is signed in. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import type { Cluster } from "@/api/deck";
import { sessionQuery, useSession } from "@/api/session";
import type { RunRow } from "@/api/types";
import { usePart, useTopicError } from "@/live/live";

/** What the deck is made of; administrators are told addresses, too. */
export function useCluster(): { cluster: Cluster | undefined; refused: string | undefined } {
  const topic = useSession()?.role === "admin" ? "cluster_admin" : "cluster";
  return { cluster: usePart(topic, "cluster"), refused: useTopicError(topic)?.detail };
}

const NO_RUNS: RunRow[] = [];

/** The newest runs, in no order: those that go on, which change often, and those that rest. */
export function useDeckRuns(): RunRow[] {
  const active = usePart("runs", "active") ?? NO_RUNS;
  const resting = usePart("runs", "resting") ?? NO_RUNS;
  return useMemo(() => [...active, ...resting], [active, resting]);
}

/** What everybody is told; undefined while nobody has said whether there is anything. */
export function useNotice() {
  return usePart("me", "notice");
}

/** Keep the page's session right while it is open: another role shows at once, an end signs out. */
export function useOwnSession(): void {
  const session = usePart("me", "session");
  const queries = useQueryClient();
  useEffect(() => {
    if (session) queries.setQueryData(sessionQuery.queryKey, session);
  }, [session, queries]);
}
