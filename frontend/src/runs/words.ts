/** Units and nouns for each kind of run. Pure. */

import type { RunDetail } from "@/api/types";
import { PLACE } from "@/components/panels";

export type Words = {
  /** What `env_steps` counts, as a heading. */
  work: string;
  /** Unit of episode length. */
  length: string;
  /** Noun for one of a worker's slots. */
  slot: string;
  /** Noun for unsent data. */
  envelopes: string;
};

const STEPS: Words = {
  work: "Env steps",
  length: "env steps",
  slot: "env slot",
  envelopes: "Fragments",
};

/** In a language run an episode is one answer: workers count episodes, and length is in tokens. */
const LANGUAGE: Words = {
  work: "Episodes",
  length: "tokens",
  slot: "concurrent batch",
  envelopes: "Group envelopes",
};

export const wordsOf = (kind: RunDetail["kind"]): Words => (kind === "language" ? LANGUAGE : STEPS);

/**
 * The command that starts a trainer for the run; it needs a token with the scope trainer.
 *
 * For an outside run, or a policy without an example, the first lines of a generic trainer.
 */
export function trainerCommand(run: Pick<RunDetail, "kind" | "name" | "config" | "batch_size">, origin: string): string {
  const trainer = trainerOf(run);
  if (!trainer) {
    const lines = trainerIn(run.name, origin);
    return run.batch_size ? lines : lines.replace("register()", `register(batch_size=${EXAMPLE_BATCH_SIZE})`);
  }
  return `python ${trainer} --url ${origin} --run ${run.name} --token ${PLACE}`;
}

const EXAMPLE_BATCH_SIZE = 32;
const TRAINERS: Record<string, string> = {
  mlp: "examples/ppo_cartpole.py",
  cnn: "",
  gru: "examples/ppo_recurrent.py",
};

/** The example that trains the run's policy; empty if there is none. */
function trainerOf(run: Pick<RunDetail, "kind" | "config">): string {
  if (run.kind === "outside") return "";
  if (run.kind === "language") return "examples/grpo.py";
  const kind = (run.config as { policy?: { kind?: string } }).policy?.kind ?? "mlp";
  return TRAINERS[kind] ?? "";
}

/** The command that serves the checkpoint of a language run, whose workers load its weights; empty for other kinds of servers. */
export function serveCommand({ config, inference_server }: Pick<RunDetail, "config" | "inference_server">): string {
  if (inference_server?.kind !== "rolldeck") return "";
  const { language } = config as { language?: { model?: { checkpoint?: string } } | null };
  const checkpoint = language?.model?.checkpoint || "CHECKPOINT";
  return `rolldeck inference --checkpoint ${CHECKPOINTS}/${checkpoint} --port ${inference_server.port} --accept-weights`;
}

/** Variable with the folder of a machine's checkpoints. */
const CHECKPOINTS = "$ROLLDECK_CHECKPOINTS";

/** The command that connects an Atropos environment to a run; it needs a token with the scope env. */
export function environmentCommand(run: string, origin: string): string {
  return `# unmodified; only its URL changes, and the token is the password in it
python my_environment.py serve \\
  --env.rollout_server_url "${origin.replace("://", `://env:${PLACE}@`)}/atropos/${run}"`;
}

/** The first lines of a trainer in Python. */
const trainerIn = (run: string, origin: string): string => `from rolldeck.trainer import Trainer

with Trainer("${origin}", run="${run}", token="${PLACE}") as trainer:
    trainer.register()
    trainer.publish_weights(weights(), step=0)
    for step, batch in enumerate(trainer.batches(), start=1):
        learn(batch.stack())
        trainer.publish_weights(weights(), step=step)`;
