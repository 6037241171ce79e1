"""Lessons work with the real `datasets` and `math-verify`."""

from pathlib import Path
from typing import Any

import pytest

from rollouts.fleet.datasets.dataset_task import DatasetTask
from rollouts.fleet.datasets.rows import DatasetUnusable, column_problem
from rollouts.fleet.rewards.functions import Answered
from rollouts.fleet.rewards.pool import RewardPool
from rollouts.tasks.rules.dataset_config import parse
from rollouts.tasks.rules.task import examples
from tests.partners.prompt_packages import prompt_packages
from tests.unit.rollouts.fleet.datasets.dataset_files import sums

__all__ = ["prompt_packages"]
pytestmark = [
    pytest.mark.partner,
    pytest.mark.usefixtures("prompt_packages"),
    # Those packages warn of their own dependencies.
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROLLDECK_DATASETS", str(tmp_path))
    return tmp_path


def problems(name: str, **kwargs: Any) -> dict[str, set[str]]:
    """Return the prompts for training and evaluation."""
    task = DatasetTask(name, parse(kwargs))
    return {
        mode: {one.prompt for one in examples(task, range(task.rows(mode)), mode=mode, seed=0)}
        for mode in ("train", "eval")
    }


def test_a_saved_data_set_is_divided(folder: Path) -> None:
    import datasets

    datasets.Dataset.from_list(sums(30)).shuffle(seed=0).select(range(20)).save_to_disk(
        str(folder / "sums")
    )

    found = problems("sums")

    assert [len(prompts) for prompts in found.values()] == [18, 2]
    assert not found["train"] & found["eval"]
    assert column_problem("sums", parse({}), root=str(folder)) is None


def test_the_splits_of_a_saved_data_set_are_used(folder: Path) -> None:
    import datasets

    parts = {"train": sums(4), "test": sums(2, start=90)}
    made = datasets.DatasetDict({name: datasets.Dataset.from_list(x) for name, x in parts.items()})
    made.save_to_disk(str(folder / "sums"))

    found = problems("sums", eval_split="test")

    assert found == {
        name: {row["prompt"] for row in parts[split]}
        for name, split in {"train": "train", "eval": "test"}.items()
    }
    with pytest.raises(DatasetUnusable, match="no split 'dev'; splits: train, test"):
        problems("sums", eval_split="dev")
    absent = column_problem("sums", parse({"prompt": "question"}), root=str(folder))
    assert absent == ("prompt", "sums has no column 'question'; columns: prompt, answer")


def test_a_damaged_folder_is_named(folder: Path) -> None:
    import datasets

    datasets.Dataset.from_list(sums(4)).save_to_disk(str(folder / "sums"))
    next((folder / "sums").glob("*.arrow")).write_bytes(b"damaged")

    with pytest.raises(DatasetUnusable, match="sums: "):
        problems("sums")


@pytest.mark.parametrize(
    ("response", "answer", "reward"),
    [
        (r"So the result is $\frac{1}{2}$.", "0.5", 1.0),
        (r"\boxed{2x + 1}", "1+2x", 1.0),
        ("The answer is 42.", "42", 1.0),
        ("The answer is 41.", "42", 0.0),
        ("no number", "42", 0.0),
    ],
)
def test_math_verify_compares_expressions(response: str, answer: str, reward: float) -> None:
    pool = RewardPool(parse({"rewards": [{"kind": "math"}]}).rewards, processes=1)
    try:
        scored = pool.score([Answered("", response, answer, {})], should_stop=lambda: False)
    finally:
        pool.close()

    assert scored == [[reward]]


def test_an_expression_that_takes_too_long_fails_alone() -> None:
    reward = {"kind": "math", "seconds": 2}
    pool = RewardPool(parse({"rewards": [reward]}).rewards, processes=1)
    answers = [Answered("", text, "42", {}) for text in ("$9^{9^{9^{9}}}!$", "$42$")]
    try:
        slow, right = pool.score(answers, should_stop=lambda: False) or []
    finally:
        pool.close()

    assert isinstance(slow, tuple) or slow == [0.0]
    assert right == [1.0]
