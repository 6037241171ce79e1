"""The table of an archive's sequences is a data set of the real `datasets`."""

from pathlib import Path

import pytest

from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.groups import accept_groups
from rolldeck.sequences import write_sequences
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


def test_a_data_set_has_the_pushed_sequences(tmp_path: Path) -> None:
    import datasets

    run = make_words()
    chat = [[{"role": "user", "content": f"a{place}"}] for place in range(2)]
    groups = [group(mark=mark, tokens=9, messages=chat) for mark in range(3)]
    made = [decode_group(body(one)) for one in groups]
    accept_groups(run=run, groups=made, producer="bob", now=NOON)
    train(run, steps=3)
    export(run, tmp_path / "words.parquet")
    target = tmp_path / "sequences.parquet"
    write_sequences(tmp_path / "words.parquet", target)

    loaded = datasets.load_dataset(
        "parquet", data_files=str(target), split="train", cache_dir=str(tmp_path / "cache")
    )

    assert list(loaded["tokens"]) == [tokens for one in groups for tokens in one["tokens"]]
    assert list(loaded["masks"]) == list(loaded["tokens"])
    assert loaded[1]["messages"] == [{"role": "user", "content": "a1", "json": None}]
    assert loaded[5]["score"] == 0.5
