/** How well each worker is, and which is the worst off, with why. Pure. */

import type { WorkerRow } from "@/api/types";
import { ageSeconds, duration, number } from "@/format";
import { honest, lookOf, type Tone, WORKER_PROOF_SECONDS } from "@/theme/chips";

type Health = {
  tone: Tone;
  sign: string;
  /** One word for the legend. */
  word: string;
  /** A sentence; empty for a worker of which there is nothing to say. */
  why: string;
  /** Larger is worse; 0 is well. */
  badness: number;
};
export type Standing = Health & { worker: WorkerRow };
type Judged = Pick<
  WorkerRow,
  "state" | "heartbeat_at" | "reason" | "restarts" | "announced_step" | "active_step" | "env_steps_per_second" | "cordon" | "cordon_reason"
> & { slots: Pick<WorkerRow["slots"][number], "state">[] };

/** A worker that makes less than this part of the median is slow. */
const SLOW = 0.5;
/** Versions that the active weights may be behind those that were announced. */
const LATE_VERSIONS = 1;
/** From this badness on a worker is worth being pinned. */
const PINNED = 10;

function plain(state: string, word: string, why: string, badness: number): Health {
  const { tone, sign } = lookOf(state);
  return { tone, sign, word, why, badness };
}

function ofRunning(worker: Judged, median: number): Health {
  const failed = worker.slots.filter(({ state }) => state === "failed").length;
  if (failed > 0)
    return { tone: "held", sign: "▲", word: "slots failed", why: `${failed} of its ${worker.slots.length} slots failed.`, badness: 60 };
  const behind = worker.announced_step - worker.active_step;
  if (behind > LATE_VERSIONS) {
    return { tone: "held", sign: "◴", word: "weights late", why: `It acts with weights that are ${behind} versions behind.`, badness: 40 };
  }
  if (median > 0 && worker.env_steps_per_second < SLOW * median) {
    const part = Math.round((100 * worker.env_steps_per_second) / median);
    return {
      tone: "held",
      sign: "▽",
      word: "slow",
      why: `It makes ${number(worker.env_steps_per_second)}/s, ${part} % of the fleet's median.`,
      badness: 30,
    };
  }
  // Every version is late for a moment: that alone puts nobody on top.
  if (behind > 0) return { tone: "held", sign: "◴", word: "weights late", why: "It acts with the weights before the newest.", badness: 8 };
  if (worker.reason) return { tone: "held", sign: "◷", word: "waiting", why: worker.reason, badness: 5 };
  return plain("running", "well", "", 0);
}

/** How well one worker is, beside the median of env steps per second of those that run. */
export function healthOf(worker: Judged, { now, median }: { now: number; median: number }): Health {
  if (worker.cordon === "out") return plain("cordoned", "cordoned", worker.cordon_reason || "An operator keeps it out.", 3);
  const age = ageSeconds(worker.heartbeat_at, now);
  const state = honest(worker.state, age, WORKER_PROOF_SECONDS);
  switch (state) {
    case "failed":
      return plain(state, "failed", worker.reason || "It was given up.", 100);
    case "unknown":
      return plain(state, "not heard of", `Nothing was heard of it for ${duration(age)}.`, 90);
    case "respawning":
      return plain(state, "respawning", worker.reason || "It died and is being started again.", 80);
    case "running":
      return ofRunning(worker, median);
    case "starting":
      return plain(state, "starting", worker.reason, worker.reason ? 20 : 4);
    default:
      return plain(state, state, worker.reason, 2);
  }
}

/** The median env steps per second of the workers that run; 0 without any. */
export function medianSpeed(workers: readonly Pick<WorkerRow, "state" | "env_steps_per_second">[]): number {
  const speeds = workers.filter(({ state }) => state === "running").map((worker) => worker.env_steps_per_second);
  speeds.sort((one, other) => one - other);
  return speeds[Math.floor((speeds.length - 1) / 2)] ?? 0;
}

/** Every worker with how it is, the worst first, then by number. */
export function standings(workers: readonly WorkerRow[], now: number): Standing[] {
  const median = medianSpeed(workers);
  return workers
    .map((worker) => ({ ...healthOf(worker, { now, median }), worker }))
    .sort((one, other) => other.badness - one.badness || one.worker.index - other.worker.index);
}

/** Who is worth being looked at first: of several that are as bad, whoever was before; null where nobody stands out. */
export function worstOf(found: readonly Standing[], before: number | null = null): Standing | null {
  const [first] = found;
  if (!first || first.badness < PINNED || found.length < 2) return null;
  return found.find(({ worker, badness }) => worker.index === before && badness === first.badness) ?? first;
}

/** How many workers there are of each word, the worst word first. */
export function tally(found: readonly Standing[]): { word: string; tone: Tone; sign: string; count: number }[] {
  const counts = new Map<string, { word: string; tone: Tone; sign: string; count: number }>();
  for (const { word, tone, sign } of found) {
    const known = counts.get(word) ?? { word, tone, sign, count: 0 };
    counts.set(word, { ...known, count: known.count + 1 });
  }
  return [...counts.values()];
}
