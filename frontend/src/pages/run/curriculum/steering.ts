/** Describe steering and evaluations of lessons, and why they are impossible. Pure. */

import { TAKES_OPERATOR } from "@/api/session";
import type { LessonRow, RunStatus, RunSummary } from "@/api/types";
import { counted, number, percent } from "@/format";

export type Hold = LessonRow["hold"];
/** A hold that a person can set. */
export type Choice = Exclude<Hold, "stopped">;
export type Wanted = { hold: Choice; weight_factor: number };
export type Reach = Pick<LessonRow, "probability" | "hold" | "weight_factor" | "status">;

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

/**
 * The lesson's share of tasks under the override; null if only the server can compute it:
 * a lesson that is not sampled has no weight here.
 */
export function partOf(lesson: Reach, wanted: Wanted): number | null {
  if (wanted.hold === "locked") return 0;
  const staysDrawn = lesson.probability > 0 && (wanted.hold === lesson.hold || (wanted.hold === "active" && lesson.status === "active"));
  return staysDrawn ? scaled(lesson, wanted) : null;
}

function scaled({ probability, weight_factor }: Reach, wanted: Wanted): number {
  const own = (probability / weight_factor) * wanted.weight_factor;
  return own / (own + 1 - probability);
}

/** The effect of the override on the tasks, as a sentence. */
export function effectOf(lesson: Reach, wanted: Wanted): string {
  if (wanted.hold === "locked") return "No new tasks sample it. Started tasks finish; the other lessons take over its share.";
  const part = partOf(lesson, wanted);
  if (part === null)
    return wanted.hold === "active"
      ? "It is sampled from the next task on, with its own weight."
      : "The curriculum re-evaluates and reweights it immediately.";
  const now = percent(lesson.probability);
  return percent(part) === now
    ? `Its share of tasks stays at ${now}.`
    : `Its share of tasks changes from ${now} to ${percent(part)}, from the next task on.`;
}

const HOLDS: Record<Hold, string> = { "": "", locked: "held locked", active: "held unlocked", stopped: "stopped" };

/** The override of a lesson as short text; empty if there is none. */
export function manualText({ hold, weight_factor }: Pick<LessonRow, "hold" | "weight_factor">): string {
  const drawn = weight_factor === 1 ? "" : `weight × ${number(weight_factor)}`;
  return [HOLDS[hold], drawn].filter(Boolean).join(", ");
}

/** The name of a user; other actors unchanged. */
export const nameOf = (actor: string): string => actor.replace(/^user:/, "");

/** The lessons that failures have stopped, as a sentence; empty if there are none. */
export function stoppedText(lessons: Pick<LessonRow, "name" | "hold">[] | undefined): string {
  const names = (lessons ?? []).filter(isStopped).map(({ name }) => name);
  if (names.length === 0) return "";
  const shown = names.slice(0, 4).join(", ") + (names.length > 4 ? ` and ${names.length - 4} more` : "");
  return `Stopped after a failure: ${shown}. Open the lesson to start it again.`;
}

/** Progress of the overrides: the workers that still use the old weights. */
export function appliedText({ steered, awaited }: { steered: number; awaited: string[] }): string {
  const asked = `${counted(steered, "lesson is", "lessons are")} steered manually`;
  if (awaited.length > 0)
    return `${steered > 0 ? asked : "No lesson is steered manually"}; not yet applied by ${awaited.slice(0, 4).join(", ")}${awaited.length > 4 ? ` and ${awaited.length - 4} more` : ""}, which still finish earlier tasks.`;
  return steered > 0 ? `${asked}; applied by all workers.` : "";
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
