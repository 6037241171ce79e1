"""Learn to emit one token with GRPO over a Rolldeck run, in numpy alone.

    python examples/grpo_arrays.py --url http://127.0.0.1:8000 --run demo --token rd_…

One process plays both parts in turn. The environment samples groups under the present policy,
scores them and pushes them as arrays; the trainer leases a batch, pads it to arrays, and takes one
step. The run is an outside run; the token has the scopes `env` and `trainer`.

The policy is one vector of logits, the same for every position; a score is the share of a
sequence's tokens that equal the target.

The advantage is GRPO's, from `rolldeck.training.advantages`.
"""

import argparse
import os
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rolldeck.http import Call, Connection
from rolldeck.sender import GroupSender
from rolldeck.trainer import Trainer
from rolldeck.training.advantages import of_batch

VOCABULARY: Final = 16
TARGET: Final = 7
PROMPT: Final = 0
SEQUENCES: Final = 8
"""Sequences per group."""
BATCH_SIZE: Final = 32
LONGEST_TOKENS: Final = 12
LEARNING_RATE: Final = 4.0

Arrays = Mapping[str, NDArray[Any]]


def log_probabilities(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the natural log of softmax, ``[V]``."""
    return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()


def sample_group(logits: NDArray[np.float64], rng: np.random.Generator) -> dict[str, Any]:
    """Return one group: a prompt token, then 1 to 11 sampled ones; scores are in 0 … 1."""
    logprobs = log_probabilities(logits)
    answers = [
        rng.choice(VOCABULARY, size=length, p=np.exp(logprobs))
        for length in rng.integers(1, LONGEST_TOKENS, SEQUENCES)
    ]
    return {
        "tokens": [np.concatenate([[PROMPT], row]).astype(np.int32) for row in answers],
        "masks": [np.concatenate([[-100], row]).astype(np.int32) for row in answers],
        "inference_logprobs": [np.concatenate([[1.0], logprobs[row]]) for row in answers],
        "scores": [float(np.mean(row == TARGET)) for row in answers],
    }


def gradient(logits: NDArray[np.float64], arrays: Arrays) -> NDArray[np.float64]:
    """Return the gradient of GRPO's objective for the logits, ``[V]``, without clipping."""
    labels = arrays["masks"]
    own = {name: arrays[name] for name in ("lengths", "zero_advantage")}
    advantages = of_batch(arrays["scores"], arrays["group_index"], rule="grpo", **own)
    trained = labels >= 0
    logprobs = log_probabilities(logits)
    ratios = np.exp(logprobs[labels * trained] - arrays["inference_logprobs"])
    weights = np.where(trained, advantages[:, None] * ratios, 0.0) / trained.sum()
    pulled = np.bincount((labels * trained).ravel(), weights.ravel(), minlength=VOCABULARY)
    return pulled - np.exp(logprobs) * weights.sum()


def train(connection: Connection, run: str, *, steps: int, seed: int = 0) -> list[float]:
    """Return the mean score of each of `steps` batches."""
    registration = {
        "wandb_group": "examples",
        "wandb_project": "grpo-arrays",
        "batch_size": BATCH_SIZE,
        "max_token_len": LONGEST_TOKENS,
        "checkpoint_dir": "",
        "save_checkpoint_interval": 0,
        "starting_step": 0,
        "num_steps": steps,
    }
    connection.json(Call(method="POST", path=f"/atropos/{run}/register", json=registration))
    sender = GroupSender("", run, connection=connection, logprob_dtype="float32")
    trainer = Trainer("", run, connection=connection)
    rng, logits, scores = np.random.default_rng(seed), np.zeros(VOCABULARY), []
    for step in range(steps):
        sender.push_groups([sample_group(logits, rng) for _ in range(BATCH_SIZE // SEQUENCES)])
        batch = trainer.next_batch()
        if batch is None:
            raise TimeoutError(f"no batch arrived in step {step}")
        arrays = batch.padded(multiple_of=4)
        logits += LEARNING_RATE * gradient(logits, arrays)
        trainer.ack(batch)
        scores.append(float(arrays["scores"].mean()))
    return scores


def main() -> None:
    """Train with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="GRPO on arrays")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--run", required=True)
    parser.add_argument("--token", default=os.environ.get("ROLLDECK_TOKEN"))
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    with Connection(options.url, options.token) as connection:
        for step, score in enumerate(train(connection, options.run, steps=options.steps), start=1):
            print(f"train step {step}: mean score {score:.2f}")


if __name__ == "__main__":
    main()
