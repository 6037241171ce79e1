/** Describe steering and evaluations of lessons, and why they are impossible. Pure. */

import { TAKES_OPERATOR } from "@/api/session";
import type { LessonRow, RunStatus, RunSummary } from "@/api/types";
import { counted, number } from "@/format";

type Hold = LessonRow["hold"];

const OVER: RunStatus[] = ["completed", "stopped", "failed"];

/** Why lessons cannot be steered now; empty if they can. */
export function whyNotSteer(run: Pick<RunSummary, "status">, mayOperate: boolean): string {
  if (OVER.includes(run.status)) return `The run is ${run.status}: its lessons are read-only.`;
  return mayOperate ? "" : TAKES_OPERATOR;
}

/** Whether a failure has stopped the lesson, by its setting. */
export const isStopped = ({ hold }: Pick<LessonRow, "hold">): boolean => hold === "stopped";

/** Whether a manual override of the lesson is active. */
export const isSteered = ({ hold, weight_factor }: Pick<LessonRow, "hold" | "weight_factor">): boolean =>
  (hold !== "" && hold !== "stopped") || weight_factor !== 1;

const HOLDS: Record<Hold, string> = { "": "", locked: "held locked", active: "held unlocked", stopped: "stopped" };

/** The override of a lesson as short text; empty if there is none. */
export function manualText({ hold, weight_factor }: Pick<LessonRow, "hold" | "weight_factor">): string {
  const drawn = weight_factor === 1 ? "" : `weight × ${number(weight_factor)}`;
  return [HOLDS[hold], drawn].filter(Boolean).join(", ");
}

/** The name of a user; other actors unchanged. */
export const nameOf = (actor: string): string => actor.replace(/^user:/, "");

/** Progress of the overrides: the workers that still use the old weights. */
export function appliedText({ steered, awaited }: { steered: number; awaited: string[] }): string {
  const asked = steered > 0 ? counted(steered, "lesson is", "lessons are") : "No lesson is";
  const shown = awaited.slice(0, 4).join(", ") + (awaited.length > 4 ? ` and ${awaited.length - 4} more` : "");
  if (awaited.length > 0) return `${asked} steered manually; not yet applied by ${shown}.`;
  return steered > 0 ? `${asked} steered manually; applied by all workers.` : "";
}

/** States in which workers accept evaluations, now or later. */
const EVALUATES: RunStatus[] = ["starting", "running", "paused"];

const NO_WEIGHTS = -2;

/** Why lessons cannot be evaluated now; empty if they can. */
export function whyNotEvaluate(run: Pick<RunSummary, "status" | "policy_step" | "allowed_verbs">, mayOperate: boolean): string {
  if (!mayOperate) return TAKES_OPERATOR;
  if (!EVALUATES.includes(run.status)) {
    const way = run.allowed_verbs.includes("start") ? " Start it first." : "";
    return `The run is ${run.status}: no worker can evaluate.${way}`;
  }
  return run.policy_step === NO_WEIGHTS ? "No weights published yet." : "";
}
