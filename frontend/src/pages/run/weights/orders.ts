/** Say which weights workers are to act with, how far they are, and what a pin would do. Pure. */

import { TAKES_OPERATOR } from "@/api/session";
import type { PolicyVersionRow, RunSummary, WeightsOrders, WorkerRow } from "@/api/types";
import { number } from "@/format";

const GONE = new Set(["stopped", "failed", "respawning"]);
const OVER: RunSummary["status"][] = ["completed", "stopped", "failed"];

/** Why nothing can be ordered about weights, in a sentence; empty when it can. */
export function whyNotOrder(run: Pick<RunSummary, "status" | "kind" | "policy_step">, mayOperate: boolean): string {
  if (run.kind === "outside") return "Its environments fetch weights on their own.";
  if (OVER.includes(run.status)) return `The run is ${run.status}: it has no workers any more.`;
  if (run.policy_step < -1) return "No weights are published yet.";
  return mayOperate ? "" : TAKES_OPERATOR;
}

type Acting = Pick<WorkerRow, "index" | "state" | "active_step" | "staged_step" | "transfers">;

export type Applied = { there: number; done: number; waiting: Acting[] };

/** How many workers act with what is wanted, and which do not yet. */
export function appliedOf({ number: order, acting_step }: Pick<WeightsOrders, "number" | "acting_step">, workers: Acting[]): Applied {
  const there = workers.filter(({ state }) => !GONE.has(state));
  const waiting = there.filter(({ active_step, transfers }) => active_step !== acting_step || transfers.order < order);
  return { there: there.length, done: there.length - waiting.length, waiting };
}

/** Which version holds, in a sentence. */
export function heldWords({ pinned_step, newest_step }: Pick<WeightsOrders, "pinned_step" | "newest_step">): string {
  if (newest_step < -1) return "No weights are published yet.";
  if (pinned_step === null) return `Workers follow the newest version, ${number(newest_step)}.`;
  const back = newest_step - pinned_step;
  return `Workers keep version ${number(pinned_step)}. ${back > 0 ? `The newest is ${number(newest_step)}, ${number(back)} further on.` : "It is the newest still."}`;
}

/** What a pin comes to, given how stale data may be: said before it is done, and while it lasts. */
export function pinEffect({ step, newest, most }: { step: number; newest: number; most: number | null }): string {
  if (most === null) return `Data of version ${number(step)} is taken however far the trainer gets: this run sets no limit of staleness.`;
  const last = step + most;
  const limit = `at most ${number(most)} ${most === 1 ? "version" : "versions"} behind`;
  if (last < newest)
    return `Version ${number(step)} is ${number(newest - step)} behind already, and data may be ${limit}: all that workers make would be dropped, and the trainer would wait. Allow more staleness first.`;
  return `The trainer goes on publishing, so data of version ${number(step)} ages with each version. It may be ${limit}: it is taken up to version ${number(last)}; from then on it is dropped and counted, and the trainer waits until you let go or allow more.`;
}

/** Whether a pin keeps a version from workers. */
export function isHeldBack(version: Pick<PolicyVersionRow, "epoch" | "step">, orders: WeightsOrders | undefined, epoch: number): boolean {
  return orders?.pinned_step !== null && orders !== undefined && version.epoch === epoch && version.step > orders.pinned_step;
}

/** The versions that may be pinned: still kept, of this epoch, and for language runs none before what holds. */
export function pinnable(
  versions: PolicyVersionRow[],
  { run, orders }: { run: Pick<RunSummary, "kind" | "epoch">; orders: WeightsOrders },
): PolicyVersionRow[] {
  return versions.filter(
    ({ epoch, step, has_file }) => epoch === run.epoch && has_file && (run.kind !== "language" || step >= orders.acting_step),
  );
}
