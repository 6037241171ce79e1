"""Archived groups become typed rows that equal what was pushed, token by token."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import accept_groups
from rolldeck.cli import main
from rolldeck.sequences import SCHEMA, ArchiveUnreadableError, write_sequences
from runs.lifecycle.models import Run
from tests.buffer_factories import body, group
from tests.factories import NOON
from tests.integration.buffer.archive_files import export, make_words, train

pytestmark = pytest.mark.django_db(transaction=True)

FULL: dict[str, Any] = {
    "tokens": [[1, 2, 3], [4, 5]],
    "masks": [[-100, 2, 3], [-100, 5]],
    "scores": [0.1, 1.0],
    "advantages": [[0.0, -0.25, -0.25], [0.0, 0.3]],
    "inference_logprobs": [[0.0, -0.1, -0.2], [0.0, -1e-7]],
    "messages": [
        [{"role": "user", "content": "2+2"}, {"role": "assistant", "content": "4"}],
        [
            {"role": "user", "content": [{"type": "text", "text": "2+2"}]},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]},
        ],
    ],
    "overrides": [{"is_truncated": True}, {}],
    "policy_versions": [[[1, 3, 2]], [[1, 4, 1]]],
    "policy_step": 3,
    "env_id": 1,
    "group_overrides": {"kind": "sum"},
}


def command(*words: str) -> int:
    return main(["archive", "sequences", *words])


@pytest.fixture
def run() -> Run:
    run = make_words()
    run.policy_step = 4
    run.save(update_fields=["policy_step"])
    return run


def table(run: Run, folder: Path, *groups: dict[str, Any]) -> list[dict[str, Any]]:
    """Push groups, train on them, archive the run, and return the rows of its table."""
    made = [decode_group(body(one)) for one in groups]
    accept_groups(run=run, groups=made, producer="bob", now=NOON)
    train(run, steps=len(groups))
    export(run, folder / "words.parquet")
    written = write_sequences(folder / "words.parquet", folder / "sequences.parquet")
    rows: list[dict[str, Any]] = pq.read_table(folder / "sequences.parquet").to_pylist()
    assert len(rows) == written
    return rows


def test_a_row_equals_its_pushed_sequence(run: Run, tmp_path: Path) -> None:
    rows = table(run, tmp_path, FULL)

    for index, row in enumerate(rows):
        for name in ("tokens", "masks", "advantages", "inference_logprobs"):
            assert row[name] == FULL[name][index], name
        assert row["score"] == FULL["scores"][index]
        assert (row["sequence"], row["env_id"], row["policy_step"]) == (index, 1, 3)
        assert (row["state"], row["served_step"], row["ref_logprobs"]) == ("served", 1, None)
        assert row["group"] == '{"group_overrides":{"kind":"sum"}}'
    first, second = rows
    assert first["messages"][1] == {"role": "assistant", "content": "4", "json": None}
    assert (first["overrides"], second["overrides"]) == ('{"is_truncated":true}', "{}")
    assert second["policy_versions"] == [{"epoch": 1, "policy_step": 4, "tokens": 1}]
    rich = second["messages"]
    assert [message["content"] for message in rich] == [None, None]
    assert rich[1]["json"] == '{"role":"assistant","content":null,"tool_calls":[{"id":"a"}]}'


@pytest.mark.parametrize("rows", [1, 3])
def test_lists_of_unknown_sequences_stay_with_the_group(
    run: Run, tmp_path: Path, rows: int
) -> None:
    """Atropos accepts lists that do not have one entry for each sequence."""
    fields = {"messages": [FULL["messages"][0]] * rows, "overrides": [{"a": 1}] * rows}
    pushed = table(run, tmp_path, FULL | fields | {"advantages": [[0.5]] * rows})

    assert [row["tokens"] for row in pushed] == FULL["tokens"]
    for row in pushed:
        assert (row["messages"], row["overrides"], row["advantages"]) == (None, None, None)
        assert msgspec.json.decode(row["group"]) == fields | {"group_overrides": {"kind": "sum"}}


def test_many_groups_keep_their_order_and_types(run: Run, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    groups = [
        group(mark=mark, tokens=int(random.integers(2, 40)), ref_logprobs=None)
        for mark in range(150)
    ]

    rows = table(run, tmp_path, *groups)

    pushed = [tokens for one in groups for tokens in one["tokens"]]
    assert [row["tokens"] for row in rows] == pushed
    assert pq.read_schema(tmp_path / "sequences.parquet").equals(SCHEMA)
    assert all(row["messages"] is None and row["group"] is None for row in rows)


@pytest.mark.parametrize("kept", [0.3, 0.99])
def test_a_file_that_is_cut_short_is_refused(run: Run, tmp_path: Path, kept: float) -> None:
    table(run, tmp_path, FULL)
    archive = tmp_path / "words.parquet"
    archive.write_bytes(archive.read_bytes()[: int(archive.stat().st_size * kept)])
    target = tmp_path / "again.parquet"

    with pytest.raises(
        ArchiveUnreadableError, match=r"words.parquet is not a complete Parquet file"
    ):
        write_sequences(archive, target)

    assert list(tmp_path.glob("*again*")) == []


def test_other_parquet_files_are_refused(run: Run, tmp_path: Path) -> None:
    table(run, tmp_path, FULL)

    with pytest.raises(ArchiveUnreadableError, match=r"sequences.parquet is no archive"):
        write_sequences(tmp_path / "sequences.parquet", tmp_path / "again.parquet")


def test_the_command_prints_the_number_of_sequences(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table(run, tmp_path, FULL)
    target = str(tmp_path / "out.parquet")

    assert command(str(tmp_path / "words.parquet"), "--out", target) == 0
    assert command(str(tmp_path / "missing.parquet"), "--out", target) == 2

    shown = capsys.readouterr()
    assert shown.out == f"{target}: 2 sequences\n"
    assert "missing.parquet" in shown.err
