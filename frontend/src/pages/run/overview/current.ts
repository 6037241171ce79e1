/** Quantities that the figures of a run and the titles of its charts have in common. Pure. */

import type { EpisodeRow, LedgerPart, RunDetail } from "@/api/types";
import { unitOf } from "@/runs/queued";

type State = {
  run: Pick<RunDetail, "kind">;
  ledger: LedgerPart | undefined;
  last: Pick<EpisodeRow, "recent_return_mean"> | undefined;
  speed: number | null;
};

/** The current value of a chart's first curve by the chart's key; null if unknown, absent if no figure shows it. */
export function currentOf({ run, ledger, last, speed }: State): Record<string, number | null | undefined> {
  return {
    queue: ledger?.[unitOf(run.kind)].queued ?? null,
    // Outside runs report no episodes, and language runs count the samples of workers, not tokens.
    ...(run.kind !== "outside" && { reward: last?.recent_return_mean ?? null }),
    ...(run.kind === "fleet" && { throughput: speed }),
  };
}
