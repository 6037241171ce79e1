/** Tone, symbol and meaning of each state. Pure, for tests. */

export type Tone = "good" | "busy" | "held" | "bad" | "quiet";
export type Look = { tone: Tone; sign: string; meaning: string };

const LOOKS: Record<string, Look> = {
  draft: { tone: "quiet", sign: "◌", meaning: "Created, not started." },
  queued: { tone: "busy", sign: "◔", meaning: "Waiting for the launch of its fleet." },
  starting: { tone: "busy", sign: "◑", meaning: "The fleet is starting." },
  running: { tone: "good", sign: "●", meaning: "Generating data." },
  stepping: { tone: "good", sign: "●", meaning: "Stepping its environment." },
  paused: { tone: "held", sign: "❚❚", meaning: "Paused: no new data; existing data is still served." },
  waiting: { tone: "held", sign: "◷", meaning: "Ready and idle." },
  draining: { tone: "busy", sign: "◕", meaning: "Finishing open episodes and serving the queue until it is empty." },
  drained: { tone: "quiet", sign: "✓", meaning: "All data was served." },
  completed: { tone: "quiet", sign: "✓", meaning: "Drained and finished." },
  stopped: { tone: "quiet", sign: "■", meaning: "Stopped; can be started again." },
  failed: { tone: "bad", sign: "✕", meaning: "Ended with an error." },
  respawning: { tone: "quiet", sign: "↻", meaning: "It died and is being restarted." },
  restarting: { tone: "quiet", sign: "↻", meaning: "Being restarted." },
  requested: { tone: "busy", sign: "◔", meaning: "Waiting for the next episode of a slot." },
  recording: { tone: "busy", sign: "◉", meaning: "The episode is being recorded." },
  ready: { tone: "good", sign: "✓", meaning: "Ready to watch." },
  locked: { tone: "quiet", sign: "◌", meaning: "Not sampled yet: prerequisites not met." },
  active: { tone: "good", sign: "●", meaning: "Sampled and evaluated." },
  graduated: { tone: "quiet", sign: "✓", meaning: "Graduated: no longer sampled, still evaluated." },
  cordoned: { tone: "held", sign: "⊘", meaning: "Cordoned by an operator: it has exited and is not replaced." },
  degraded: { tone: "held", sign: "▲", meaning: "Some workers are down." },
  up: { tone: "good", sign: "●", meaning: "Responding." },
  down: { tone: "bad", sign: "✕", meaning: "Not responding, or refusing connections." },
  absent: { tone: "quiet", sign: "○", meaning: "Not used by this server." },
  unknown: { tone: "quiet", sign: "?", meaning: "No recent heartbeat." },
};

/** The look of a state; unknown ones are shown as received, in a quiet tone. */
export function lookOf(state: string): Look {
  return LOOKS[state] ?? { tone: "quiet", sign: "·", meaning: "" };
}

const OVER = new Set(["completed", "stopped", "failed"]);

/** Whether a run in this state has ended; the UI then shows the end time instead of a duration. */
export function isOver(state: string): boolean {
  return OVER.has(state);
}

/** Without a heartbeat for this long a worker's state counts as unknown. */
export const WORKER_PROOF_SECONDS = 5;
/** Maximum time from the first launch of a fleet to its first report. */
export const FLEET_START_SECONDS = 45;
/** Without a report for this long a run counts as unknown; lists refresh every few seconds. */
export const RUN_PROOF_SECONDS = 10;
const CLAIMS_LIFE = new Set(["starting", "running", "paused", "draining", "respawning", "waiting", "stepping", "up"]);

/** The state to show: `unknown` if the last heartbeat is older than allowed. */
export function honest(state: string, proofAgeSeconds: number | null, allowedSeconds: number): string {
  const lapsed = proofAgeSeconds !== null && proofAgeSeconds > allowedSeconds;
  return lapsed && CLAIMS_LIFE.has(state) ? "unknown" : state;
}
