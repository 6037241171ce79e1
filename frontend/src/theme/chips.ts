/** Say for each state which tone and sign it has, and what it means. Pure, for tests. */

export type Tone = "good" | "busy" | "held" | "bad" | "quiet";
export type Look = { tone: Tone; sign: string; meaning: string };

const LOOKS: Record<string, Look> = {
  draft: { tone: "quiet", sign: "◌", meaning: "Created, not started." },
  queued: { tone: "busy", sign: "◔", meaning: "Waiting for its fleet to be launched." },
  starting: { tone: "busy", sign: "◑", meaning: "The fleet is starting." },
  running: { tone: "good", sign: "●", meaning: "Rolling out." },
  stepping: { tone: "good", sign: "●", meaning: "Stepping its environment." },
  paused: { tone: "held", sign: "❚❚", meaning: "Nothing new is generated; what was made is still served." },
  waiting: { tone: "held", sign: "◷", meaning: "Ready, with nothing to do yet." },
  draining: { tone: "busy", sign: "◕", meaning: "Open episodes finish, the queue is served until empty." },
  drained: { tone: "quiet", sign: "✓", meaning: "Everything was delivered." },
  completed: { tone: "quiet", sign: "✓", meaning: "Drained and done." },
  stopped: { tone: "quiet", sign: "■", meaning: "Stopped; it may be started again." },
  failed: { tone: "bad", sign: "✕", meaning: "Ended by an error." },
  respawning: { tone: "quiet", sign: "↻", meaning: "It died and is being started again." },
  restarting: { tone: "quiet", sign: "↻", meaning: "It is being started again." },
  requested: { tone: "busy", sign: "◔", meaning: "Waiting for the next episode of a slot." },
  recording: { tone: "busy", sign: "◉", meaning: "The episode is being recorded." },
  ready: { tone: "good", sign: "✓", meaning: "There to be watched." },
  locked: { tone: "quiet", sign: "◌", meaning: "Not sampled yet: what it requires is not learnt." },
  active: { tone: "good", sign: "●", meaning: "Sampled and evaluated." },
  graduated: { tone: "quiet", sign: "✓", meaning: "Learnt: not sampled any more, still evaluated." },
  cordoned: { tone: "held", sign: "⊘", meaning: "Kept out by an operator: it has ended and nobody takes its place." },
  degraded: { tone: "held", sign: "▲", meaning: "Some of its workers are down." },
  up: { tone: "good", sign: "●", meaning: "It answers." },
  down: { tone: "bad", sign: "✕", meaning: "It does not answer, or refuses." },
  absent: { tone: "quiet", sign: "○", meaning: "This deck has none." },
  unknown: { tone: "quiet", sign: "?", meaning: "No proof of life for too long." },
};

/** How a state looks; one nobody told us about is shown as it is, quietly. */
export function lookOf(state: string): Look {
  return LOOKS[state] ?? { tone: "quiet", sign: "·", meaning: "" };
}

const OVER = new Set(["completed", "stopped", "failed"]);

/** Whether a run in this state has ended: it is told when that was, not for how long it has been so. */
export function isOver(state: string): boolean {
  return OVER.has(state);
}

/** After this long without a heartbeat a worker's state is no longer claimed. */
export const WORKER_PROOF_SECONDS = 5;
/** What a fleet that is launched for the first time may take to its first report. */
export const FLEET_START_SECONDS = 45;
/** After this long without a report nobody claims that a run rolls out: lists are read every few seconds. */
export const RUN_PROOF_SECONDS = 10;
const CLAIMS_LIFE = new Set(["starting", "running", "paused", "draining", "respawning", "waiting", "stepping", "up"]);

/** The state that may be claimed: `unknown` when its last proof is older than allowed. */
export function honest(state: string, proofAgeSeconds: number | null, allowedSeconds: number): string {
  const lapsed = proofAgeSeconds !== null && proofAgeSeconds > allowedSeconds;
  return lapsed && CLAIMS_LIFE.has(state) ? "unknown" : state;
}
