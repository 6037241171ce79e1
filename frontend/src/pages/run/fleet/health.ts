/** The trouble of each worker, and the worst worker with its reason. Pure. */

import type { WorkerRow } from "@/api/types";
import { ageSeconds, duration, number } from "@/format";
import { honest, WORKER_PROOF_SECONDS } from "@/theme/chips";

type Trouble = {
  /** A sentence; empty for a healthy worker. */
  why: string;
  /** Larger is worse; 0 is healthy. */
  badness: number;
};
export type WorkerHealth = Trouble & { worker: WorkerRow };
type Judged = Pick<
  WorkerRow,
  "state" | "heartbeat_at" | "reason" | "announced_step" | "active_step" | "env_steps_per_second" | "cordon" | "cordon_reason"
> & { slots: Pick<WorkerRow["slots"][number], "state">[] };

/** A worker below this fraction of the median is slow. */
const SLOW = 0.5;
/** Badness from which a worker is pinned to the top. */
const PINNED = 10;

function ofRunning({ slots, announced_step, active_step, env_steps_per_second: speed, reason }: Judged, median: number): Trouble {
  const failed = slots.filter(({ state }) => state === "failed").length;
  if (failed > 0) return { why: `${failed} of ${slots.length} slots failed.`, badness: 60 };
  const behind = announced_step - active_step;
  if (behind > 1) return { why: `Its active weights are ${behind} versions behind.`, badness: 40 };
  if (median > 0 && speed < SLOW * median) {
    const part = Math.round((100 * speed) / median);
    return { why: `Its throughput is ${number(speed)}/s, ${part} % of the fleet's median.`, badness: 30 };
  }
  // Every new version causes a brief lag, which alone does not pin a worker.
  if (behind > 0) return { why: "Its active weights are one version behind.", badness: 8 };
  return { why: reason, badness: reason ? 5 : 0 };
}

/** The trouble of one worker, relative to the median throughput of running workers. */
export function troubleOf(worker: Judged, { now, median }: { now: number; median: number }): Trouble {
  const { reason, cordon, cordon_reason } = worker;
  if (cordon === "out") return { why: cordon_reason || "Cordoned by an operator.", badness: 3 };
  const age = ageSeconds(worker.heartbeat_at, now);
  switch (honest(worker.state, age, WORKER_PROOF_SECONDS)) {
    case "failed":
      return { why: reason || "Not restarted: too many failures.", badness: 100 };
    case "unknown":
      return { why: `No heartbeat for ${duration(age)}.`, badness: 90 };
    case "respawning":
      return { why: reason || "It died and is being restarted.", badness: 80 };
    case "running":
      return ofRunning(worker, median);
    case "starting":
      return { why: reason, badness: reason ? 20 : 4 };
    default:
      return { why: reason, badness: 2 };
  }
}

/** Median env steps per second of running workers; 0 without any. */
export function medianSpeed(workers: readonly Pick<WorkerRow, "state" | "env_steps_per_second">[]): number {
  const speeds = workers.filter(({ state }) => state === "running").map((worker) => worker.env_steps_per_second);
  speeds.sort((one, other) => one - other);
  return speeds[Math.floor((speeds.length - 1) / 2)] ?? 0;
}

/** The worst worker; on ties the previous one. Null if none stands out. */
export function worstOf(workers: readonly WorkerRow[], now: number, before: number | null = null): WorkerHealth | null {
  const median = medianSpeed(workers);
  const found = workers
    .map((worker) => ({ ...troubleOf(worker, { now, median }), worker }))
    .sort((one, other) => other.badness - one.badness || one.worker.index - other.worker.index);
  const [first] = found;
  if (!first || first.badness < PINNED || found.length < 2) return null;
  return found.find(({ worker, badness }) => worker.index === before && badness === first.badness) ?? first;
}
