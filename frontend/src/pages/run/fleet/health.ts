/** Health of each worker, and the worst worker with its reason. Pure. */

import type { WorkerRow } from "@/api/types";
import { ageSeconds, duration, number } from "@/format";
import { honest, lookOf, type Tone, WORKER_PROOF_SECONDS } from "@/theme/chips";

type Health = {
  tone: Tone;
  sign: string;
  /** Label in the legend. */
  word: string;
  /** A sentence; empty for a healthy worker. */
  why: string;
  /** Larger is worse; 0 is healthy. */
  badness: number;
};
export type WorkerHealth = Health & { worker: WorkerRow };
type Judged = Pick<
  WorkerRow,
  "state" | "heartbeat_at" | "reason" | "restarts" | "announced_step" | "active_step" | "env_steps_per_second" | "cordon" | "cordon_reason"
> & { slots: Pick<WorkerRow["slots"][number], "state">[] };

/** A worker below this fraction of the median is slow. */
const SLOW = 0.5;
/** Accepted lag of the active weights behind the announced version. */
const LATE_VERSIONS = 1;
/** Badness from which a worker is pinned to the top. */
const PINNED = 10;

function plain(state: string, word: string, why: string, badness: number): Health {
  const { tone, sign } = lookOf(state);
  return { tone, sign, word, why, badness };
}

function ofRunning(worker: Judged, median: number): Health {
  const failed = worker.slots.filter(({ state }) => state === "failed").length;
  if (failed > 0)
    return { tone: "held", sign: "▲", word: "slots failed", why: `${failed} of ${worker.slots.length} slots failed.`, badness: 60 };
  const behind = worker.announced_step - worker.active_step;
  if (behind > LATE_VERSIONS) {
    return { tone: "held", sign: "◴", word: "weights behind", why: `Its active weights are ${behind} versions behind.`, badness: 40 };
  }
  if (median > 0 && worker.env_steps_per_second < SLOW * median) {
    const part = Math.round((100 * worker.env_steps_per_second) / median);
    return {
      tone: "held",
      sign: "▽",
      word: "slow",
      why: `Its throughput is ${number(worker.env_steps_per_second)}/s, ${part} % of the fleet's median.`,
      badness: 30,
    };
  }
  // Every new version causes a brief lag, which alone does not pin a worker.
  if (behind > 0) return { tone: "held", sign: "◴", word: "weights behind", why: "Its active weights are one version behind.", badness: 8 };
  if (worker.reason) return { tone: "held", sign: "◷", word: "waiting", why: worker.reason, badness: 5 };
  return plain("running", "well", "", 0);
}

/** The health of one worker, relative to the median throughput of running workers. */
export function healthOf(worker: Judged, { now, median }: { now: number; median: number }): Health {
  if (worker.cordon === "out") return plain("cordoned", "cordoned", worker.cordon_reason || "Cordoned by an operator.", 3);
  const age = ageSeconds(worker.heartbeat_at, now);
  const state = honest(worker.state, age, WORKER_PROOF_SECONDS);
  switch (state) {
    case "failed":
      return plain(state, "failed", worker.reason || "Not restarted: too many failures.", 100);
    case "unknown":
      return plain(state, "no heartbeat", `No heartbeat for ${duration(age)}.`, 90);
    case "respawning":
      return plain(state, "respawning", worker.reason || "It died and is being restarted.", 80);
    case "running":
      return ofRunning(worker, median);
    case "starting":
      return plain(state, "starting", worker.reason, worker.reason ? 20 : 4);
    default:
      return plain(state, state, worker.reason, 2);
  }
}

/** Median env steps per second of running workers; 0 without any. */
export function medianSpeed(workers: readonly Pick<WorkerRow, "state" | "env_steps_per_second">[]): number {
  const speeds = workers.filter(({ state }) => state === "running").map((worker) => worker.env_steps_per_second);
  speeds.sort((one, other) => one - other);
  return speeds[Math.floor((speeds.length - 1) / 2)] ?? 0;
}

/** All workers with their health, worst first, then by index. */
export function workerHealth(workers: readonly WorkerRow[], now: number): WorkerHealth[] {
  const median = medianSpeed(workers);
  return workers
    .map((worker) => ({ ...healthOf(worker, { now, median }), worker }))
    .sort((one, other) => other.badness - one.badness || one.worker.index - other.worker.index);
}

/** The worst worker; on ties the previous one. Null if none stands out. */
export function worstOf(found: readonly WorkerHealth[], before: number | null = null): WorkerHealth | null {
  const [first] = found;
  if (!first || first.badness < PINNED || found.length < 2) return null;
  return found.find(({ worker, badness }) => worker.index === before && badness === first.badness) ?? first;
}
