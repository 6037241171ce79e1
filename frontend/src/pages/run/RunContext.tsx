/** Live state of the open run, shared by its tabs. */

import { createContext, useContext } from "react";
import type { Diagnosis } from "@/api/queue";
import type { useAsk } from "@/api/runs";
import type { CurriculumPart, EpisodeRow, FleetPart, LedgerPart, QueuePart, RunDetail, RunEvent } from "@/api/types";

type RunParts = {
  run: RunDetail;
  fleet: FleetPart | undefined;
  /** The diagnosis of the shown status. */
  diagnosis: Diagnosis | undefined;
  queue: QueuePart | undefined;
  ledger: LedgerPart | undefined;
  curriculum: CurriculumPart | null | undefined;
  episodes: EpisodeRow[];
  events: RunEvent[];
  /** Server time of the newest frame. */
  at: string | null;
  /** Env steps per second of the whole fleet; null if there is none. */
  speed: number | null;
  /** Request a state change of the run. */
  ask: ReturnType<typeof useAsk>;
};

export const RunContext = createContext<RunParts | null>(null);

/** The open run's state; only within its page. */
export function useRun(): RunParts {
  const parts = useContext(RunContext);
  if (!parts) throw new Error("useRun requires a run page");
  return parts;
}
