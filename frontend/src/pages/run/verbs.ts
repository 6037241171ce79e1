/** Texts on the state of a run. Pure. */

import type { FleetPart, LedgerPart, RunStatus, RunSummary, WorkerRow } from "@/api/types";
import { counted, duration, inUnit } from "@/format";
import { unitOf } from "@/runs/queued";
import { isOver } from "@/theme/chips";

const ACTIVE: RunStatus[] = ["queued", "starting", "running", "paused", "draining"];

/** Whether a run is active, so that it cannot be deleted. */
export const isActive = ({ status, archived_at }: RunSummary) => archived_at === null && ACTIVE.includes(status);

type Followed = { fleet: string[]; doing: string; workers: WorkerRow["state"][] };

/** The states of fleet and workers that have applied a status. */
const FOLLOWED: Partial<Record<RunStatus, Followed>> = {
  running: { fleet: ["running"], doing: "running", workers: ["running"] },
  paused: { fleet: ["paused"], doing: "paused", workers: ["paused", "stopped"] },
  draining: { fleet: ["draining", "drained", "stopped"], doing: "drained", workers: ["stopped"] },
  stopped: { fleet: ["stopped", "none", "failed"], doing: "stopped", workers: ["stopped", "failed"] },
};

/**
 * What the fleet has yet to do for the run's status: `requested: paused; 2 of 3 workers paused`.
 *
 * Null once it is applied, without a fleet, while the run starts (which ends with the first env step,
 * not with the fleet's start), while the fleet's state is unknown, and in an outage, which the fleet probes.
 */
export function pendingRequest(run: RunSummary, fleet: FleetPart | undefined, isProven: boolean): string | null {
  if (run.kind === "outside" || !fleet || !isProven) return null;
  if (run.status === "starting" && fleet.observed === "none") return "requested: starting; no fleet yet";
  if (run.status === "paused" && fleet.desired === "running") return null;
  const wanted = FOLLOWED[run.status];
  if (!wanted || wanted.fleet.includes(fleet.observed)) return null;
  const workers = fleet.workers ?? [];
  const there = workers.filter(({ state }) => wanted.workers.includes(state)).length;
  const rest = fleet.observed === "none" ? "no fleet yet" : `the fleet is still ${fleet.observed}`;
  return `requested: ${run.status}; ${workers.length > 0 ? `${there} of ${counted(workers.length, "worker")} ${wanted.doing}` : rest}`;
}

/** The remaining work of a drain; empty if the run is not draining. */
export function drainText(
  { status, kind, batch_size }: Pick<RunSummary, "status" | "kind" | "batch_size">,
  ledger: LedgerPart | undefined,
): string {
  if (status !== "draining" || !ledger) return "";
  const { queued, waiting, leased } = ledger[unitOf(kind)];
  const left = queued + waiting + leased;
  return `${inUnit(left, unitOf(kind))} to serve${batch_size ? `, ${counted(Math.ceil(left / batch_size), "batch")}` : ""}`;
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
