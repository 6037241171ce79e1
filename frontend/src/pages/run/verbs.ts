/** Say what each verb does, and whether what was asked has arrived at the fleet. Pure. */

import type { FleetPart, RunStatus, RunSummary, RunVerb } from "@/api/types";

export type VerbLook = {
  label: string;
  asking: string;
  does: string;
  /** Confirmed first, because it cannot be taken back. */
  destroys: boolean;
};

export const VERBS: Record<RunVerb, VerbLook> = {
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
    destroys: false,
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
  },
};

const WANTED: Partial<Record<RunStatus, string[]>> = {
  starting: ["running", "paused"],
  running: ["running"],
  paused: ["paused"],
  draining: ["draining", "drained", "stopped"],
  stopped: ["stopped", "none", "failed"],
};

export type Arrival = { state: "applied" | "requested"; text: string };

/** Return whether the fleet does what the run's status asks of it; null when there is no fleet. */
export function arrival(run: RunSummary, fleet: FleetPart | undefined): Arrival | null {
  const wanted = WANTED[run.status];
  if (run.kind === "outside" || !fleet || !wanted) return null;
  if (wanted.includes(fleet.observed)) return { state: "applied", text: `applied: the fleet is ${words(fleet.observed)}` };
  if (run.status === fleet.observed) return null;
  const says = fleet.observed === "none" ? "there is no fleet yet" : `the fleet is still ${fleet.observed}`;
  return { state: "requested", text: `requested: ${run.status}; ${says}` };
}

function words(observed: string): string {
  return observed === "none" ? "gone" : observed;
}

/** Return the newer of two sights of one run: what the live page says, and what a verb answered. */
export function newer<T extends RunSummary>(shown: T | undefined, answered: T | undefined): T | undefined {
  if (!shown || !answered || shown.id !== answered.id) return shown ?? answered;
  return Date.parse(answered.status_changed_at) > Date.parse(shown.status_changed_at) ? answered : shown;
}
