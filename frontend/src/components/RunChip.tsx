import { useNow } from "@/components/now";
import { StateChip } from "@/components/StateChip";
import { ageSeconds } from "@/format";
import { honest, RUN_PROOF_SECONDS } from "@/theme/chips";

const PROVEN_BY_FLEET = new Set(["running", "paused", "draining"]);

type Props = {
  run: { kind: string; status: string; status_changed_at: string; status_reason?: string };
  /** Server time of the last proof of its fleet's state; null where nobody ought to report. */
  observedAt: string | null | undefined;
  /** Why its fleet is as it is, or why nobody can tell. */
  reason?: string;
  /** More where what is shown is read more seldom than lists are. */
  allowedSeconds?: number;
};

/** Whether the fleet of a run reported lately enough for its figures to be claimed. */
export function useIsProven(run: Props["run"] | undefined, observedAt: Props["observedAt"]): boolean {
  const now = useNow();
  if (!run || run.kind === "outside" || !PROVEN_BY_FLEET.has(run.status) || !observedAt) return true;
  return honest(run.status, ageSeconds(observedAt, now), RUN_PROOF_SECONDS) !== "unknown";
}

/** A run's state and how long it has lasted; unknown where its fleet ought to report and does not. */
export function RunChip({ run, observedAt, reason = "", allowedSeconds = RUN_PROOF_SECONDS }: Props) {
  const now = useNow();
  const said = run.status_reason || reason;
  if (run.kind === "outside" || !PROVEN_BY_FLEET.has(run.status) || !observedAt) {
    return <StateChip state={run.status} since={run.status_changed_at} reason={said} />;
  }
  // Why somebody paused it explains nothing about a fleet that is silent.
  const isSilent = honest(run.status, ageSeconds(observedAt, now), allowedSeconds) === "unknown";
  const why = isSilent ? reason || "its fleet does not report" : said;
  return <StateChip state={run.status} since={run.status_changed_at} provenAt={observedAt} allowedSeconds={allowedSeconds} reason={why} />;
}
