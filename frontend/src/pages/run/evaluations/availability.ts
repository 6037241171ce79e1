/** Check whether lessons can be evaluated now. Pure. */

import { TAKES_OPERATOR } from "@/api/session";
import type { RunStatus, RunSummary } from "@/api/types";

/** States in which workers accept evaluations, now or later. */
const EVALUATES: RunStatus[] = ["starting", "running", "paused"];

const NO_WEIGHTS = -2;

/** Why no evaluation is possible now; empty if possible. */
export function unavailableReason(run: Pick<RunSummary, "status" | "policy_step" | "allowed_verbs">, mayOperate: boolean): string {
  if (!mayOperate) return TAKES_OPERATOR;
  if (!EVALUATES.includes(run.status)) {
    const way = run.allowed_verbs.includes("start") ? " Start it first." : "";
    return `The run is ${run.status}: no worker can evaluate.${way}`;
  }
  return run.policy_step === NO_WEIGHTS ? "No weights published yet." : "";
}
