/** What is known of the run that is open, live, for whichever of its tabs is shown. */

import { createContext, useContext } from "react";
import type { Verdict } from "@/api/pipeline";
import type { useAsk } from "@/api/runs";
import type { CurriculumPart, EpisodeRow, FleetPart, LedgerPart, QueuePart, RunDetail, RunEvent } from "@/api/types";

type RunParts = {
  run: RunDetail;
  fleet: FleetPart | undefined;
  /** The bottleneck, of the status that is shown. */
  verdict: Verdict | undefined;
  queue: QueuePart | undefined;
  ledger: LedgerPart | undefined;
  curriculum: CurriculumPart | null | undefined;
  episodes: EpisodeRow[];
  events: RunEvent[];
  /** Server time of the newest frame. */
  at: string | null;
  /** Env steps per second of the whole fleet; null without one. */
  speed: number | null;
  /** Ask the run for a change of its state. */
  ask: ReturnType<typeof useAsk>;
};

export const RunContext = createContext<RunParts | null>(null);

/** The parts of the run whose page this is; only inside of it. */
export function useRun(): RunParts {
  const parts = useContext(RunContext);
  if (!parts) throw new Error("useRun is for the tabs of a run's page");
  return parts;
}
