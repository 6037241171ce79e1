"""Tables of an archive's sequences and tasks are data sets of the real `datasets`."""

from pathlib import Path
from typing import Any

import pytest

from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import accept_groups
from rolldeck.sequences import write_sequences, write_tasks
from rollouts.fleet.datasets.dataset_task import DatasetTask
from rollouts.tasks.rules.dataset_config import parse
from rollouts.tasks.rules.task import examples
from tests.buffer_factories import body, group
from tests.factories import NOON
from tests.integration.buffer.archive_files import export, make_words, train
from tests.partners.prompt_packages import prompt_packages

__all__ = ["prompt_packages"]
pytestmark = [
    pytest.mark.partner,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("prompt_packages"),
    pytest.mark.filterwarnings("default"),
]


def archived(folder: Path, *groups: dict[str, Any]) -> Path:
    run = make_words()
    made = [decode_group(body(one)) for one in groups]
    accept_groups(run=run, groups=made, producer="bob", now=NOON)
    train(run, steps=len(groups))
    export(run, folder / "words.parquet")
    return folder / "words.parquet"


def test_a_data_set_has_the_pushed_sequences(tmp_path: Path) -> None:
    import datasets

    chat = [[{"role": "user", "content": f"a{place}"}] for place in range(2)]
    groups = [group(mark=mark, tokens=9, messages=chat) for mark in range(3)]
    target = tmp_path / "sequences.parquet"
    write_sequences(archived(tmp_path, *groups), target)

    loaded = datasets.load_dataset(
        "parquet", data_files=str(target), split="train", cache_dir=str(tmp_path / "cache")
    )

    assert list(loaded["tokens"]) == [tokens for one in groups for tokens in one["tokens"]]
    assert list(loaded["masks"]) == list(loaded["tokens"])
    assert loaded[1]["messages"] == [{"role": "user", "content": "a1", "json": None}]
    assert loaded[5]["score"] == 0.5


def test_a_lesson_reads_tasks_that_a_filter_has_selected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    monkeypatch.setenv("ROLLDECK_DATASETS", str(tmp_path))
    masks = [[-100, -100, 2]] * 2
    groups = [group(mark=mark, masks=masks, scores=[0.0, float(mark % 2)]) for mark in range(1, 8)]
    write_tasks(archived(tmp_path, *groups), tmp_path / "tasks.parquet")
    files = str(tmp_path / "tasks.parquet")
    loaded = datasets.load_dataset(
        "parquet", data_files=files, split="train", cache_dir=str(tmp_path / "cache")
    )

    loaded.filter(lambda row: row["score_max"] > row["score_min"]).save_to_disk(tmp_path / "varied")

    made = DatasetTask("varied", parse({"prompt": "prompt_tokens", "answer": ""}))
    train_rows = examples(made, range(made.rows("train")), mode="train", seed=0)
    held_out = examples(made, range(made.rows("eval")), mode="eval", seed=0)
    prompts = sorted(one.tokens for one in [*train_rows, *held_out])
    assert prompts == [(1, 1), (3, 1), (5, 1), (7, 1)]
