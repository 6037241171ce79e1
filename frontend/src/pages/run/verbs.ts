/** The verbs of a run, and texts on its state. Pure. */

import type { FleetPart, LedgerPart, QueueAnswer, RunStatus, RunSummary, RunVerb, WorkerRow } from "@/api/types";
import { counted, duration, number } from "@/format";
import { unitOf } from "@/runs/queued";
import { isOver } from "@/theme/chips";

/** Requests on a run; reset is not a state transition but starts a new run. */
export type Verb = RunVerb | "reset";

type VerbLook = {
  label: string;
  asking: string;
  does: string;
  /** Needs a confirmation because it cannot be undone. */
  destroys: boolean;
  /** Requires typing the run's name and giving a reason. */
  typed?: boolean;
  /** Drops the data that no trainer has received. */
  drops?: boolean;
};

export const VERBS: Record<Verb, VerbLook> = {
  start: { label: "Start", asking: "Starting", does: "Launches a fleet for this run and keeps its history.", destroys: false },
  pause: {
    label: "Pause",
    asking: "Pausing",
    does: "Stops workers, and outside environments at their next status request. Existing data is still accepted and served.",
    destroys: false,
  },
  resume: { label: "Resume", asking: "Resuming", does: "Workers and outside environments resume generating.", destroys: false },
  drain: {
    label: "Drain",
    asking: "Draining",
    does: "Finishes open episodes, serves the queue until it is empty, and completes the run.",
    destroys: true,
  },
  stop: {
    label: "Stop",
    asking: "Stopping",
    does: "Drains for at most 30 s; remaining data is dropped and counted.",
    destroys: true,
    typed: true,
    drops: true,
  },
  kill: {
    label: "Kill",
    asking: "Killing",
    does: "Stops the fleet immediately. Data in flight or queued is dropped and counted.",
    destroys: true,
    typed: true,
    drops: true,
  },
  reset: {
    label: "Reset",
    asking: "Resetting",
    does: "Archives this run with all its data and starts a new one under the same name. Environments and trainers must register again.",
    destroys: true,
    typed: true,
  },
};

const ACTIVE: RunStatus[] = ["queued", "starting", "running", "paused", "draining"];

/** Whether a run is active, so that it cannot be deleted. */
export const isActive = ({ status, archived_at }: RunSummary) => archived_at === null && ACTIVE.includes(status);

const WANTED: Partial<Record<RunStatus, string[]>> = {
  running: ["running"],
  paused: ["paused"],
  draining: ["draining", "drained", "stopped"],
  stopped: ["stopped", "none", "failed"],
};

/**
 * What the fleet has yet to do for the run's status.
 *
 * Null once it is applied, without a fleet, while the run starts (which ends with the first env step,
 * not with the fleet's start), and while the fleet's state is unknown.
 */
export function pendingRequest(run: RunSummary, fleet: FleetPart | undefined, isProven: boolean): string | null {
  if (run.kind === "outside" || !fleet || !isProven) return null;
  if (run.status === "starting" && fleet.observed === "none") return "requested: starting; no fleet yet";
  const wanted = WANTED[run.status];
  if (!wanted || wanted.includes(fleet.observed)) return null;
  const state = fleet.observed === "none" ? "no fleet yet" : `the fleet is still ${fleet.observed}`;
  return `requested: ${run.status}; ${following(run.status, fleet.workers ?? []) || state}`;
}

const FOLLOWED: Partial<Record<RunStatus, { doing: string; done: WorkerRow["state"][] }>> = {
  running: { doing: "running", done: ["running"] },
  paused: { doing: "paused", done: ["paused", "stopped"] },
  draining: { doing: "drained", done: ["stopped"] },
  stopped: { doing: "stopped", done: ["stopped", "failed"] },
};

/** The number of workers that have applied the status: `3 of 4 workers paused`; empty if unknown. */
export function following(status: RunStatus, workers: Pick<WorkerRow, "state">[]): string {
  const wanted = FOLLOWED[status];
  if (!wanted || workers.length === 0) return "";
  const there = workers.filter(({ state }) => wanted.done.includes(state)).length;
  return `${there} of ${counted(workers.length, "worker")} ${wanted.doing}`;
}

/** The remaining work and time of a drain; empty if the run is not draining. */
export function drainText(run: RunSummary, queue: QueueAnswer | undefined): string {
  if (run.status !== "draining" || !queue) return "";
  const left = queue.queued_sequences + queue.leased_sequences;
  const batches = run.batch_size ? Math.ceil(left / run.batch_size) : null;
  const what = `${number(left)} ${queue.unit} to serve${batches === null ? "" : `, ${counted(batches, "batch", "batches")}`}`;
  const perSecond = queue.trained_per_second;
  return perSecond ? `${what}; about ${duration(left / perSecond)} at the current rate` : `${what}; no recent batches`;
}

/** The data that a verb would drop now: `24 sequences are queued now, 8 are leased to trainers.`; empty if it drops none. */
export function droppedText(verb: Verb, { kind }: Pick<RunSummary, "kind">, ledger: LedgerPart | undefined): string {
  if (!VERBS[verb].drops || !ledger) return "";
  const unit = unitOf(kind);
  const { queued, waiting, leased } = ledger[unit];
  const held = queued + waiting;
  if (held + leased === 0) return `No ${unit} are queued or leased now.`;
  const what = counted(held, unit.slice(0, -1));
  return `${what} ${held === 1 ? "is" : "are"} queued now, ${number(leased)} ${leased === 1 ? "is" : "are"} leased to trainers.`;
}

/** Time since the last start, including pauses and fleet restarts; null if never started. */
export function uptimeText(run: Pick<RunSummary, "status" | "started_at" | "status_changed_at">, nowMs: number): string | null {
  if (!run.started_at) return null;
  const began = Date.parse(run.started_at);
  if (isOver(run.status)) return `ran for ${duration((Date.parse(run.status_changed_at) - began) / 1000)}`;
  return `up ${duration((nowMs - began) / 1000)}`;
}

/** Return the newer of two versions of a run: from the live page or from a verb's response. */
export function newer<T extends RunSummary>(shown: T | undefined, answered: T | undefined): T | undefined {
  if (!shown || !answered || shown.id !== answered.id) return shown ?? answered;
  return Date.parse(answered.status_changed_at) > Date.parse(shown.status_changed_at) ? answered : shown;
}
