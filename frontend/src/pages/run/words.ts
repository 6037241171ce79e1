/** What a run counts, in the words of its kind. Pure. */

import type { RunDetail } from "@/api/types";
import { PLACE } from "@/components/commandToken";
import { quickStarts } from "@/pages/tokens/quickStarts";

export type Words = {
  /** What `env_steps` counts, as a heading and inside a sentence. */
  work: string;
  works: string;
  /** Unit of an episode's length. */
  length: string;
  /** What a worker's slots are. */
  slots: string;
  /** What waits to be sent. */
  parcels: string;
  /** The example that trains such a run. */
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

/** In a language run an episode is one answer: its workers count episodes, and their length in tokens. */
const LANGUAGE: Words = {
  work: "Episodes",
  works: "episodes",
  length: "tokens",
  slots: "batches at a time",
  parcels: "Parcels of groups",
  trainer: "examples/grpo.py",
};

export const wordsOf = (kind: RunDetail["kind"]): Words => (kind === "language" ? LANGUAGE : STEPS);

/**
 * What begins to train a run, in the words of its kind; it needs a token with the scope trainer.
 *
 * Of an outside run the first lines of any trainer: which one it is nobody knows here.
 */
export function trainerCommand(run: Pick<RunDetail, "kind" | "name">, origin: string): string {
  if (run.kind === "outside") return startOf("python", run.name, origin);
  return `python ${wordsOf(run.kind).trainer} --url ${origin} --run ${run.name} --token ${PLACE}`;
}

/** What has an Atropos environment push to a run; it needs a token with the scope env. */
export function environmentCommand(run: string, origin: string): string {
  return startOf("atropos", run, origin);
}

function startOf(id: string, run: string, origin: string): string {
  return quickStarts(origin, PLACE, run).find((start) => start.id === id)?.text ?? "";
}
