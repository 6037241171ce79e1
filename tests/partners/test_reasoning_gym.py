"""The example trainer improves on problems of the `reasoning-gym` package.

The bound leaves a margin for samples that differ with the batching of answers.
"""

from pathlib import Path

import numpy as np
import pytest

from tests.dataset_training import train_on
from tests.partners.prompt_packages import prompt_packages
from tests.unit.rollouts.fleet.datasets.dataset_files import write_jsonl

__all__ = ["prompt_packages"]
pytestmark = [
    pytest.mark.partner,
    pytest.mark.usefixtures("prompt_packages"),
    pytest.mark.filterwarnings("default"),
]


def test_grpo_improves_on_problems_of_reasoning_gym(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import reasoning_gym

    problems = reasoning_gym.create_dataset(
        "basic_arithmetic",
        size=300,
        seed=0,
        min_terms=2,
        max_terms=2,
        min_digits=1,
        max_digits=1,
        operators=["+"],
        allow_parentheses=False,
    )
    columns = ("question", "answer")
    write_jsonl(
        tmp_path / "sums.jsonl", [{name: row[name] for name in columns} for row in problems]
    )
    monkeypatch.setenv("ROLLDECK_DATASETS", str(tmp_path))

    rewards = train_on(
        "dataset:sums.jsonl",
        context_tokens=64,
        train_steps=100,
        prompt="question",
    )

    early, late = np.mean(rewards[:5]), np.mean(rewards[-5:])
    assert late > early + 0.1, f"{early} at first, {late} at the end"
