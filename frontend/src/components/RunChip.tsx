import { useNow } from "@/components/now";
import { StateChip } from "@/components/StateChip";
import { ageSeconds } from "@/format";
import { useIsOutdated } from "@/live/live";
import { honest, isOver, RUN_PROOF_SECONDS } from "@/theme/chips";

const PROVEN_BY_FLEET = new Set(["running", "paused", "draining"]);

type Props = {
  run: { kind: string; status: string; status_changed_at: string; status_reason?: string };
  /** Server time of the fleet's last heartbeat; null if none is expected. */
  observedAt: string | null | undefined;
  /** Reason for the fleet's state, or why the state is unknown. */
  reason?: string;
  /** A longer threshold for views that refresh less often than lists. */
  allowedSeconds?: number;
};

/**
 * Whether the shown figures of a run are known: the connection brings values, `isUnread` requests have not failed, and an
 * expected fleet reported recently. Figures of ended runs do not change.
 */
export function useIsProven(run: Props["run"] | undefined, observedAt: Props["observedAt"], isUnread = false): boolean {
  const now = useNow();
  const isOutdated = useIsOutdated();
  if (!run || isOver(run.status)) return true;
  if (isOutdated || isUnread) return false;
  if (run.kind === "outside" || !PROVEN_BY_FLEET.has(run.status) || !observedAt) return true;
  return honest(run.status, ageSeconds(observedAt, now), RUN_PROOF_SECONDS) !== "unknown";
}

/** A run's state and its duration; `unknown` if an expected fleet does not report. */
export function RunChip({ run, observedAt, reason = "", allowedSeconds = RUN_PROOF_SECONDS }: Props) {
  const now = useNow();
  const known = { state: run.status, since: run.status_changed_at };
  const stated = run.status_reason || reason;
  if (run.kind === "outside" || !PROVEN_BY_FLEET.has(run.status) || !observedAt) {
    return <StateChip {...known} reason={stated} />;
  }
  // The reason for a pause does not explain a silent fleet.
  const isSilent = honest(run.status, ageSeconds(observedAt, now), allowedSeconds) === "unknown";
  const why = isSilent ? reason || "no heartbeats from the fleet" : stated;
  return <StateChip {...known} provenAt={observedAt} allowedSeconds={allowedSeconds} reason={why} />;
}
