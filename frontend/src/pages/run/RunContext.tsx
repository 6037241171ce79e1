/** The open run and its live parts, for its tabs; a part renders only the components that read it. */

import { createContext, useContext } from "react";
import type { Diagnosis } from "@/api/queue";
import type { useAsk } from "@/api/runs";
import type { FleetPart, RunDetail } from "@/api/types";
import { currentDiagnosis } from "@/diagnosis/Diagnosis";
import type { PartName, PartOf, RowOf, SeriesName } from "@/live/frames";
import { usePart, useSeries } from "@/live/live";

type RunTopic = `run:${string}`;

type OpenRun = {
  run: RunDetail;
  /** Request a state change of the run. */
  ask: ReturnType<typeof useAsk>;
};

export const RunContext = createContext<OpenRun | null>(null);

/** The open run; only within its page. */
export function useRun(): OpenRun {
  const open = useContext(RunContext);
  if (!open) throw new Error("useRun requires a run page");
  return open;
}

const useTopic = (): RunTopic => `run:${useRun().run.name}`;

export const useRunPart = <N extends PartName<RunTopic>>(name: N): PartOf<RunTopic, N> | undefined => usePart(useTopic(), name);

export const useRunSeries = <N extends SeriesName<RunTopic>>(name: N): RowOf<RunTopic, N>[] => useSeries(useTopic(), name);

/** The diagnosis of the shown status. */
export const useDiagnosis = (): Diagnosis | undefined => currentDiagnosis(useRunPart("diagnosis") ?? undefined, useRun().run);

/** Env steps per second of the whole fleet; null without workers. */
export function speedOf(fleet: FleetPart | undefined): number | null {
  const workers = fleet?.workers ?? [];
  return workers.length > 0 ? workers.reduce((sum, worker) => sum + worker.env_steps_per_second, 0) : null;
}
