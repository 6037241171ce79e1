/** Say what steering a lesson would do, and what was done. Pure. */

import { TAKES_OPERATOR } from "@/api/session";
import type { LessonRow, RunSummary } from "@/api/types";
import { number, percent } from "@/format";

export type Hold = LessonRow["hold"];
export type Wanted = { hold: Hold; weight_factor: number };
export type Reach = Pick<LessonRow, "probability" | "hold" | "weight_factor" | "status">;

const OVER: RunSummary["status"][] = ["completed", "stopped", "failed"];

/** Why lessons cannot be steered now, in a sentence; empty when they can. */
export function whyNotSteer(run: Pick<RunSummary, "status">, mayOperate: boolean): string {
  if (OVER.includes(run.status)) return `The run is ${run.status}: its lessons are history.`;
  return mayOperate ? "" : TAKES_OPERATOR;
}

/** Whether a person has overruled the curriculum about a lesson. */
export const isByHand = ({ hold, weight_factor }: Pick<LessonRow, "hold" | "weight_factor">): boolean => hold !== "" || weight_factor !== 1;

/**
 * The lesson's part of the tasks under what is wanted; null where only the server can weigh it:
 * a lesson that is not drawn now has no weight to go by.
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

/** What steering would do to the tasks, in a sentence. */
export function effectOf(lesson: Reach, wanted: Wanted): string {
  if (wanted.hold === "locked") return "No further task is of it. What a worker has begun is finished; the others share its part.";
  const part = partOf(lesson, wanted);
  if (part === null)
    return wanted.hold === "active"
      ? "It is drawn from the next task on, by its own weight."
      : "The curriculum judges it at once, and weighs it anew.";
  const now = percent(lesson.probability);
  return percent(part) === now
    ? `It stays at ${now} of the tasks.`
    : `${percent(part)} of the tasks are of it, from the next one on; now ${now} are.`;
}

const HOLDS: Record<Hold, string> = { "": "", locked: "held locked", active: "held unlocked" };

/** What a person wants of a lesson, in a few words; empty where the curriculum decides alone. */
export function handWords({ hold, weight_factor }: Pick<LessonRow, "hold" | "weight_factor">): string {
  const drawn = weight_factor === 1 ? "" : `drawn × ${number(weight_factor)}`;
  return [HOLDS[hold], drawn].filter(Boolean).join(", ");
}

/** A person by name, anything else as it is called. */
export const nameOf = (actor: string): string => actor.replace(/^user:/, "");

/** How far what was decided by hand has come: which workers still sample by the old weights. */
export function appliedWords({ steered, awaited }: { steered: number; awaited: string[] }): string {
  const asked = `${steered} ${steered === 1 ? "lesson is" : "lessons are"} steered by hand`;
  if (awaited.length > 0)
    return `${steered > 0 ? asked : "The curriculum has its lessons back"}; not yet asked since by ${awaited.slice(0, 4).join(", ")}${awaited.length > 4 ? ` and ${awaited.length - 4} more` : ""}: what they have begun is of before.`;
  return steered > 0 ? `${asked}; every worker has asked since, so all of them sample by it.` : "";
}
