"""Training of the example trainer on a data set, with groups in lockstep."""

from typing import Any

import torch

from benchmarks.lesson_lockstep import LockstepLesson, train
from examples.grpo import Learner, Settings
from rolldeck.batches import Batch
from rollouts.fleet.datasets.dataset_task import lesson_task
from rollouts.fleet.engine.building import build, clone_behavior
from rollouts.fleet.engine.checkpoints import named_tensors
from runs.config.rules import run_config


def train_on(spec: str, *, context_tokens: int, train_steps: int, **kwargs: Any) -> list[float]:
    """Train a small model after imitation of 40 % of the answers.

    Args:
        spec: ``dataset:<path>``, with answers of up to three characters.
        context_tokens: Maximum length of a prompt with its answer.
        train_steps: Number of batches of 128 answers.
        **kwargs: Arguments of the lesson.

    Returns:
        Mean reward of all samples for each batch.
    """
    lessons = {"one": {"spec": spec, "kwargs": kwargs, "sampling": {"max_tokens": 4}}}
    model = {"tokenizer": "bytes", "hidden_size": 96, "num_hidden_layers": 2}
    model |= {"intermediate_size": 192, "max_position_embeddings": context_tokens}
    config = run_config.parse(
        {
            "language": {
                "lessons": lessons,
                "model": model,
                "group_size": 8,
                "prompts_per_batch": 16,
            },
            "buffer": {"batch_size": 128},
        }
    )
    assert config.language is not None
    torch.manual_seed(0)
    built = build(config.language)
    task = lesson_task(config.language.lessons["one"])
    clone_behavior(built, {"one": task}, seed=0, until_success=0.4)
    learner = Learner(built.model, Settings(), seed=0)
    with LockstepLesson(config, "one", seed=0) as lesson:

        def learn(batch: Batch) -> None:
            learner.learn(batch.padded())

        train(
            lesson,
            weights=lambda: dict(named_tensors(built.model)),
            learn=learn,
            train_steps=train_steps,
        )
        return lesson.rewards
