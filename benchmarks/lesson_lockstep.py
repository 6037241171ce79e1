"""Sample one lesson and train on it in lockstep: a language run without timing effects.

Groups are sampled by the fleet's worker, encoded as on the wire, and passed to the trainer as a
batch; each is sampled by the version before its train step.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Self

import numpy as np

from benchmarks.lockstep import EPOCH, Weights, head_of
from rolldeck.batches import Batch
from rolldeck.wire import BatchAnswer, encode
from rollouts.fleet.engine.building import build
from rollouts.fleet.groups.batches import Draw, RolloutGroup
from rollouts.fleet.groups.curriculum import NoCurriculum
from rollouts.fleet.groups.outbox import encoded
from rollouts.fleet.groups.outcomes import split_by_variance
from rollouts.fleet.groups.torch_server import TorchInferenceServer
from rollouts.fleet.groups.worker import GroupRolloutWorker
from rollouts.fleet.process.settings import derive_seed
from rollouts.lessons.rules.evaluation import EvaluationFigures
from runs.config.rules.run_config import RunConfig

WORKER: Final = "w0"
MOST_TRIES: Final = 50
"""Maximum attempts to fill a batch: mastered and failed lessons have no variance."""


class NothingToLearn(RuntimeError):
    """Too few groups of the lesson have answers with different scores."""


class LockstepLesson:
    """Sampler of one lesson's problems with the last loaded weights."""

    def __init__(self, config: RunConfig, lesson: str, *, seed: int) -> None:
        """Build the model of the configuration.

        Args:
            config: Configuration of a language run.
            lesson: Name of one of its lessons.
            seed: Seed of problems and samples.
        """
        language = config.language
        if language is None:
            raise ValueError("only language runs have lessons")
        self._language, self._lesson, self._seed = language, lesson, seed
        self._wanted = config.buffer.batch_size // language.group_size_of(lesson)
        model, self.tokenizer = build(language)
        rows = language.most_sequences
        self._server = TorchInferenceServer(model, rows=rows, tokenizer=self.tokenizer)
        self._worker = GroupRolloutWorker(
            language,
            server=self._server,
            tokenizer=self.tokenizer,
            context_tokens=model.config.max_position_embeddings,
            curriculum=NoCurriculum(),
            problem_seed=seed,
        )
        self._step = 0
        self._first_example = 0
        self.rewards: list[float] = []
        """Mean reward of all samples for each batch, including groups without variance."""

    def load(self, weights: Weights, *, step: int) -> None:
        """Sample with version `step` from now on."""
        self._step = step
        self._server.update_weights(weights, (EPOCH, step))

    def batch(self) -> Batch:
        """Return the next batch in a trainer's format.

        Raises:
            NothingToLearn: If too few groups have variance.
        """
        sampled: list[RolloutGroup] = []
        selected: list[RolloutGroup] = []
        for _ in range(MOST_TRIES):
            fresh = self._sample()
            sampled += fresh
            selected += split_by_variance(fresh, rewards_of=lambda group: group.rewards)[0]
            if len(selected) >= self._wanted:
                break
        else:
            raise NothingToLearn(f"{len(selected)} of {len(sampled)} groups have variance")
        self.rewards.append(float(np.mean([group.rewards for group in sampled])))
        return batch_of(selected[: self._wanted], lesson=self._lesson, policy_step=self._step)

    def evaluate(self, problems: int) -> EvaluationFigures:
        """Return the figures on a fixed set of evaluation problems."""
        figures, _ = self._worker.evaluate_lesson(
            self._lesson,
            n_examples=problems,
            eval_type="micro_eval",
            rng=Draw(self._seed),
            policy_version=(EPOCH, self._step),
            worker_id=WORKER,
        )
        if figures is None:
            raise NothingToLearn("no evaluation was completed")
        return figures

    def close(self) -> None:
        """Stop the inference server."""
        self._worker.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _sample(self) -> list[RolloutGroup]:
        first, count = self._first_example, self._language.prompts_per_batch
        self._first_example += count
        batch, _ = self._worker.sample_batch(
            self._lesson,
            n_examples=count,
            n_generations=self._language.group_size,
            mode="train",
            rng=Draw(derive_seed(self._seed, first), first),
            policy_version=(EPOCH, self._step),
            worker_id=WORKER,
        )
        return list(batch.groups) if batch else []


def train(
    lesson: LockstepLesson,
    *,
    weights: Callable[[], Weights],
    learn: Callable[[Batch], object],
    train_steps: int,
    versions_behind: int = 0,
) -> None:
    """Train on one batch after the other.

    Args:
        lesson: Source of the data.
        weights: Returns the trainer's present weights in the published form.
        learn: Updates the weights.
        train_steps: Number of train steps.
        versions_behind: Age of the data in versions, after the first batches, which are all of
            version 0.
    """
    lesson.load(weights(), step=0)
    waiting = deque(lesson.batch() for _ in range(versions_behind))
    for step in range(1, train_steps + 1):
        waiting.append(lesson.batch())
        learn(waiting.popleft())
        lesson.load(weights(), step=step)


def batch_of(groups: list[RolloutGroup], *, lesson: str, policy_step: int) -> Batch:
    """Return `groups` in a trainer's format, with version `policy_step` as the newest."""
    head = head_of("groups", count=len(groups), policy_step=policy_step)
    items = [encoded(group, lesson=lesson, worker=WORKER) for group in groups]
    answer = BatchAnswer(batch=head, items=items, codecs=["msgpack" for _ in items])
    return Batch.decode(encode(answer))
