/** Units and nouns for each kind of run. Pure. */

import type { RunDetail } from "@/api/types";
import { PLACE } from "@/components/commandToken";
import { quickStarts } from "@/pages/tokens/quickStarts";

export type Words = {
  /** What `env_steps` counts, as a heading and within a sentence. */
  work: string;
  works: string;
  /** Unit of episode length. */
  length: string;
  /** Noun for a worker's slots. */
  slots: string;
  /** Noun for unsent data. */
  parcels: string;
  /** The example trainer for this kind of run. */
  trainer: string;
};

const STEPS: Words = {
  work: "Env steps",
  works: "env steps",
  length: "env steps",
  slots: "env slots",
  parcels: "Fragments",
  trainer: "examples/ppo_cartpole.py",
};

/** In a language run an episode is one answer: workers count episodes, and length is in tokens. */
const LANGUAGE: Words = {
  work: "Episodes",
  works: "episodes",
  length: "tokens",
  slots: "concurrent batches",
  parcels: "Group envelopes",
  trainer: "examples/grpo.py",
};

export const wordsOf = (kind: RunDetail["kind"]): Words => (kind === "language" ? LANGUAGE : STEPS);

/**
 * The command that starts a trainer for the run; it needs a token with the scope trainer.
 *
 * For an outside run, the first lines of a generic trainer, as the actual one is unknown.
 */
export function trainerCommand(run: Pick<RunDetail, "kind" | "name">, origin: string): string {
  if (run.kind === "outside") return startOf("python", run.name, origin);
  return `python ${wordsOf(run.kind).trainer} --url ${origin} --run ${run.name} --token ${PLACE}`;
}

/** The command that connects an Atropos environment to a run; it needs a token with the scope env. */
export function environmentCommand(run: string, origin: string): string {
  return startOf("atropos", run, origin);
}

function startOf(id: string, run: string, origin: string): string {
  return quickStarts(origin, PLACE, run).find((start) => start.id === id)?.text ?? "";
}
