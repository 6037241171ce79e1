"""The example trainer improves on a generated data set of sums.

The bound leaves a margin for samples that differ with the batching of answers.
"""

import random
from pathlib import Path

import numpy as np
import pytest

from tests.dataset_training import train_on
from tests.unit.rollouts.fleet.datasets.dataset_files import write_jsonl

pytestmark = [
    pytest.mark.system,
    pytest.mark.release("starts, loads and kills servers for minutes"),
]


def test_grpo_improves_on_a_generated_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLDECK_DATASETS", str(tmp_path))
    rows = [{"question": f"{a}+{b}=", "answer": a + b} for a in range(10) for b in range(10)]
    random.Random(0).shuffle(rows)
    write_jsonl(tmp_path / "sums.jsonl", rows)

    rewards = train_on("dataset:sums.jsonl", context_tokens=16, train_steps=120, prompt="question")

    early, late = np.mean(rewards[:5]), np.mean(rewards[-5:])
    assert late > early + 0.1, f"{early} at first, {late} at the end"
