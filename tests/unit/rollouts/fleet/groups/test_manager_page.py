"""The section about the rollout manager runs as written."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from examples import tiny_checkpoint
from rolldeck.cli import main
from rolldeck.group_files import read_groups
from tests.documented import blocks_of

PAGE = "howto/language.md"
SECTION = "How do I use the rollout manager without a platform?"


def test_the_example_and_the_command_run_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, command = (block.text for block in blocks_of(PAGE, section=SECTION))
    assert len(code.splitlines()) <= 16
    monkeypatch.chdir(tmp_path)
    tiny_checkpoint.write(Path("checkpoints/qwen3"))
    names: dict[str, Any] = {}

    exec(compile(code, PAGE, "exec"), names)  # noqa: S102 as a reader would

    assert names["moved"] == []
    assert names["arrays"]["tokens"].shape[0] == 2 * 8 * 8
    assert (names["state"].status, names["state"].trained) == ("active", 128)
    assert names["results"]["sums"][0].problems == 16
    Path("groups").rename("first")
    Path("checkpoints/qwen3").rename("kept")
    Path("run.json").write_text(
        '{"language": {"lessons": {"sums": {"spec": "task:addition"}},'
        ' "model": {"tokenizer": "checkpoint"}}}'
    )
    words = shlex.split(command.removeprefix("$ "))

    assert main(words[1:]) == 0
    assert "sums 64" in capsys.readouterr().out
    assert len(list(read_groups("groups"))) == 64
