import type { RunSummary } from "@/api/types";
import { StateChip } from "@/components/StateChip";
import { RUN_PROOF_SECONDS } from "@/theme/chips";

const PROVEN_BY_FLEET = new Set(["running", "paused", "draining"]);

type Props = {
  run: RunSummary;
  /** Server time of the fleet's last report. */
  observedAt: string | null | undefined;
  /** Why, when the run itself gives no reason. */
  reason?: string;
};

/** A run's state with the age of its fleet's last report, or since when where no fleet proves it. */
export function RunChip({ run, observedAt, reason = "" }: Props) {
  const why = run.status_reason || reason;
  return run.kind !== "outside" && PROVEN_BY_FLEET.has(run.status) && observedAt ? (
    <StateChip state={run.status} provenAt={observedAt} allowedSeconds={RUN_PROOF_SECONDS} reason={why} />
  ) : (
    <StateChip state={run.status} since={run.status_changed_at} reason={why} />
  );
}
