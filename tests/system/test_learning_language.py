"""The example trainer trains on a lesson of several turns, with groups in lockstep.

The model starts like every new one of `examples/grpo.py`; the bounds leave a margin for samples
that differ with the batching of answers.
"""

import re
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from benchmarks.lesson_lockstep import LockstepLesson, train
from benchmarks.staleness import LESSON
from examples.grpo import Learner, Settings
from rolldeck.batches import Batch
from rollouts.fleet.engine.building import build, clone_behavior
from rollouts.fleet.engine.checkpoints import named_tensors
from rollouts.fleet.engine.tokenizers import Tokenizer
from rollouts.tasks.rules.task import CALL, RESULT, Shopping
from runs.config.rules import run_config

pytestmark = [
    pytest.mark.system,
    pytest.mark.release("starts, loads and kills servers for minutes"),
]

TRAIN_STEPS = 35


def decode(tokenizer: Tokenizer, tokens: NDArray[Any], where: NDArray[np.bool_]) -> str:
    """Return the text of some of a sequence's tokens."""
    return tokenizer.decode(tokens[where].tolist())


def check_masks(batch: Batch, tokenizer: Tokenizer) -> int:
    """Check that only calls and answers are trained on; return the number of read results."""
    arrays = batch.padded()
    results = 0
    for tokens, masks, is_there in zip(
        arrays["tokens"], arrays["masks"], arrays["attention_mask"], strict=True
    ):
        own = masks >= 0
        given = decode(tokenizer, tokens, is_there & ~own)
        # Whatever the policy writes, the environment's messages have one form.
        result = f"({RESULT[0]}(\\d+|error){RESULT[1]}\n)?"
        assert re.fullmatch(rf"\w+ buys .* does \w+ pay\?\n{result}", given), given
        assert (masks[own] == tokens[own]).all()
        assert given.count(RESULT[0]) <= decode(tokenizer, tokens, own).count(CALL[0])
        results += given.count(RESULT[0])
    return results


def test_a_tool_is_used_better_after_grpo_than_after_imitation() -> None:
    config = run_config.parse(LESSON)
    assert config.language is not None
    torch.manual_seed(0)
    built = build(config.language)
    clone_behavior(built, {"shopping": Shopping(goods=2)}, seed=0)
    # Each batch is sampled by the newest version, so a rate above the default is stable.
    settings = Settings(learning_rate=1e-3)
    learner = Learner(built.model, settings, seed=0)
    results = 0

    with LockstepLesson(config, "shopping", seed=0) as lesson:

        def learn(batch: Batch) -> None:
            nonlocal results
            results += check_masks(batch, lesson.tokenizer)
            learner.learn(batch.padded())

        train(
            lesson,
            weights=lambda: dict(named_tensors(built.model)),
            learn=learn,
            train_steps=TRAIN_STEPS,
        )

    assert results > 0.9 * TRAIN_STEPS * 128
    # With seed 0, 22 % of the answers were right at first, and 46 % after 30 train steps.
    early, late = np.mean(lesson.rewards[:5]), np.mean(lesson.rewards[-5:])
    assert late > early + 0.15, f"{early} at first, {late} at the end"
