/** Say what each verb does, and whether what was asked has arrived at the fleet. Pure. */

import type { FleetPart, QueuePart, RunStatus, RunSummary, RunVerb, WorkerRow } from "@/api/types";
import { duration, number } from "@/format";

/** What people may ask of a run: reset is no move of its life, but begins another. */
export type Verb = RunVerb | "reset";

type VerbLook = {
  label: string;
  asking: string;
  does: string;
  /** Confirmed first, because it cannot be taken back. */
  destroys: boolean;
  /** The run's name is typed first, and a reason given. */
  typed?: boolean;
};

export const VERBS: Record<Verb, VerbLook> = {
  start: { label: "Start", asking: "Starting", does: "Launches a fleet for this run; its history stays.", destroys: false },
  pause: {
    label: "Pause",
    asking: "Pausing",
    does: "Nothing new is generated. What was made already is still accepted and served.",
    destroys: false,
  },
  resume: { label: "Resume", asking: "Resuming", does: "The fleet goes on generating.", destroys: false },
  drain: {
    label: "Drain",
    asking: "Draining",
    does: "Open episodes finish, the queue is served until it is empty, then the run is completed.",
    destroys: true,
  },
  stop: {
    label: "Stop",
    asking: "Stopping",
    does: "Drains, but for half a minute at most; what is left by then is dropped and counted.",
    destroys: true,
  },
  kill: {
    label: "Kill",
    asking: "Killing",
    does: "Ends the fleet now. What is in flight or queued is lost on purpose, and counted.",
    destroys: true,
    typed: true,
  },
  reset: {
    label: "Reset",
    asking: "Resetting",
    does: "Archives this run with all its rows and begins a fresh one of the same name. Environments and trainers register again.",
    destroys: true,
    typed: true,
  },
};

const WANTED: Partial<Record<RunStatus, string[]>> = {
  running: ["running"],
  paused: ["paused"],
  draining: ["draining", "drained", "stopped"],
  stopped: ["stopped", "none", "failed"],
};

export type Arrival = { state: "applied" | "requested"; text: string };

/**
 * Return whether the fleet does what the run's status asks of it.
 *
 * Null without a fleet, while the run starts (its state ends with the first env step, not with the
 * fleet's) and while nothing proves what the fleet does.
 */
export function arrival(run: RunSummary, fleet: FleetPart | undefined, isProven: boolean): Arrival | null {
  if (run.kind === "outside" || !fleet || !isProven) return null;
  if (run.status === "starting" && fleet.observed === "none")
    return { state: "requested", text: "requested: starting; there is no fleet yet" };
  const wanted = WANTED[run.status];
  if (!wanted) return null;
  if (wanted.includes(fleet.observed)) return { state: "applied", text: `applied: the fleet is ${words(fleet.observed)}` };
  const says = fleet.observed === "none" ? "there is no fleet yet" : `the fleet is still ${fleet.observed}`;
  return { state: "requested", text: `requested: ${run.status}; ${following(run.status, fleet.workers ?? []) || says}` };
}

const FOLLOWED: Partial<Record<RunStatus, { doing: string; done: WorkerRow["state"][] }>> = {
  running: { doing: "running", done: ["running"] },
  paused: { doing: "paused", done: ["paused", "stopped"] },
  draining: { doing: "drained", done: ["stopped"] },
  stopped: { doing: "stopped", done: ["stopped", "failed"] },
};

/** How many workers do already what is asked: `3 of 4 workers paused`; empty where nobody can say. */
export function following(status: RunStatus, workers: Pick<WorkerRow, "state">[]): string {
  const wanted = FOLLOWED[status];
  if (!wanted || workers.length === 0) return "";
  const there = workers.filter(({ state }) => wanted.done.includes(state)).length;
  return `${there} of ${workers.length} ${workers.length === 1 ? "worker" : "workers"} ${wanted.doing}`;
}

/** What a drain still has before it, and about how long; empty for a run that does not drain. */
export function drainText(run: RunSummary, queue: QueuePart | undefined, perSecond: number | null): string {
  if (run.status !== "draining" || !queue) return "";
  const left = (queue.queued_sequences ?? queue.queued) + queue.leased;
  const batches = run.batch_size ? Math.ceil(left / run.batch_size) : null;
  const what = `${number(left)} to serve${batches === null ? "" : `, ${number(batches)} ${batches === 1 ? "batch" : "batches"}`}`;
  return perSecond ? `${what}; about ${duration(left / perSecond)} at the present rate` : `${what}; no batch was taken lately`;
}

function words(observed: string): string {
  return observed === "none" ? "gone" : observed;
}

/** Return the newer of two sights of one run: what the live page says, and what a verb answered. */
export function newer<T extends RunSummary>(shown: T | undefined, answered: T | undefined): T | undefined {
  if (!shown || !answered || shown.id !== answered.id) return shown ?? answered;
  return Date.parse(answered.status_changed_at) > Date.parse(shown.status_changed_at) ? answered : shown;
}
