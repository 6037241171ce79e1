/** Say whether lessons can be evaluated now. Pure. */

import { TAKES_OPERATOR } from "@/api/session";
import type { RunStatus, RunSummary } from "@/api/types";

/** Where there are workers that would take an evaluation, or will be. */
const EVALUATES: RunStatus[] = ["starting", "running", "paused"];

const NO_WEIGHTS = -2;

/** Why nothing can be evaluated now, in a sentence; empty when it can. */
export function whyNotNow(run: Pick<RunSummary, "status" | "policy_step" | "allowed_verbs">, mayOperate: boolean): string {
  if (!mayOperate) return TAKES_OPERATOR;
  if (!EVALUATES.includes(run.status)) {
    const way = run.allowed_verbs.includes("start") ? " Start it first." : "";
    return `The run is ${run.status}: no worker would take it.${way}`;
  }
  return run.policy_step === NO_WEIGHTS ? "No weights are published yet." : "";
}
