"""`rolldeck rollout` samples groups of lessons into files without a platform."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rolldeck.cli import main
from rolldeck.group_encoding import to_msgpack
from rolldeck.group_files import GroupFiles, read_groups
from rolldeck.padding import padded
from tests import processes
from tests.unit.rollouts.fleet.groups.small_checkpoints import LESSONS, make_checkpoint
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[5]
CONFIG: dict[str, Any] = {
    "language": {"lessons": LESSONS, "group_size": 4, "prompts_per_batch": 3},
    "seed": 5,
}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return make_checkpoint(tmp_path / "small")


def words(checkpoint: Path, *more: str, config: dict[str, Any] = CONFIG) -> list[str]:
    given = ["--config", json.dumps(config), "--checkpoint", str(checkpoint), "--json"]
    return ["rollout", *given, *more]


def test_whole_groups_of_a_lesson_are_written_and_can_be_trained_on(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--lesson", "reverse", "--groups", "7", "--out", str(tmp_path / "out")]
    assert main(words(checkpoint, *more)) == 0

    captured = capsys.readouterr()
    found = json.loads(captured.out)
    groups = list(read_groups(tmp_path / "out"))
    arrays = padded(groups)
    assert captured.err == ""
    assert found["lessons"] == {"reverse": 7}
    assert (found["groups"], found["missing_groups"], found["sequences"]) == (7, 0, 28)
    assert found["tokens"] == (arrays["masks"] >= 0).sum()
    assert found["reward_mean"] == pytest.approx(arrays["scores"].mean(), abs=1e-5)
    assert [one.sequences for one in groups] == [4] * 7
    assert {(one.epoch, one.policy_step) for one in groups} == {(1, 0)}
    assert {one.json["lesson"] for one in groups} == {b'"reverse"'}
    assert len({one.json["example"] for one in groups}) > 1


def test_equal_seeds_write_equal_groups(checkpoint: Path, tmp_path: Path) -> None:
    found = {}
    for name, more in {"a": ["--seed", "5"], "b": ["--seed", "6"], "c": []}.items():
        out = ["--out", str(tmp_path / name)]
        assert main(words(checkpoint, "--groups", "8", *more, *out)) == 0
        # Only the times of its parts differ.
        found[name] = [
            to_msgpack(replace(one, json={**one.json, "spans": b"[]"}))
            for one in read_groups(tmp_path / name)
        ]

    assert found["a"] == found["c"] != found["b"]


@pytest.mark.parametrize(
    ("more", "code", "reason"),
    [
        (["--lesson", "x", "--groups", "1"], 2, "--lesson: 'x' is no lesson; known: reverse"),
        ([], 2, "a configuration with lessons needs --groups"),
        (["--groups", "0"], 2, "0 is not in the range x>=1"),
        (["--groups", "1", "--seed", "-1"], 2, "-1 is not in the range"),
        (["--groups", "1", "--episodes", "3"], 2, "--episodes needs a configuration without"),
        (["--groups", "1", "--env-steps", "3"], 2, "--env-steps needs a configuration without"),
        (["--groups", "1", "--weights", "w"], 2, "--weights needs a configuration without"),
        (["--groups", "1", "--checkpoint", "nowhere"], 1, "config.json"),
    ],
)
def test_a_failure_has_a_reason_in_one_line(
    checkpoint: Path, capsys: pytest.CaptureFixture[str], more: list[str], code: int, reason: str
) -> None:
    assert main(words(checkpoint, *more)) == code
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("rolldeck rollout: ")
    assert reason in line


@pytest.mark.parametrize("option", [["--groups", "1"], ["--lesson", "x"], ["--checkpoint", "x"]])
def test_options_of_lessons_need_lessons(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rollout", "--env-steps", "9", *option]) == 2
    assert f"{option[0]} needs a configuration with `language`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("language", "reason"),
    [
        ({"group_size": 0}, "language.group_size"),
        ({"strategy": "mine"}, "strategy: 'mine' is not registered"),
    ],
)
def test_an_invalid_configuration_is_misuse(
    checkpoint: Path,
    language: dict[str, Any],
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = CONFIG | {"language": CONFIG["language"] | language}
    assert main(words(checkpoint, "--groups", "1", config=config)) == 2
    assert reason in capsys.readouterr().err


def test_a_folder_with_groups_is_refused_and_unchanged(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = words(checkpoint, "--groups", "3", "--out", str(tmp_path / "out"))
    assert main(given) == 0
    before = (tmp_path / "out" / "groups-000001.msgpack").read_bytes()

    assert main(given) == 2
    assert "already contains groups; use another folder" in capsys.readouterr().err
    assert (tmp_path / "out" / "groups-000001.msgpack").read_bytes() == before


def test_a_failing_lesson_ends_the_rollout_and_earlier_groups_are_written(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lessons = {"odd": {"spec": "verifiers:chess"}, **LESSONS}
    language = CONFIG["language"] | {"lessons": lessons, "model": {"tokenizer": "checkpoint"}}
    more = ["--lesson", "odd", "--groups", "3", "--out", str(tmp_path / "out")]

    assert main(words(checkpoint, *more, config={"language": language})) == 1
    captured = capsys.readouterr()
    assert "verifiers:chess is not registered" in captured.err
    assert json.loads(captured.out)["missing_groups"] == 3
    assert list((tmp_path / "out").iterdir()) == []


def test_a_full_disk_ends_the_rollout_without_a_part(
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(_: GroupFiles) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(GroupFiles, "close", full)
    given = words(checkpoint, "--groups", "3", "--out", str(tmp_path / "out"))

    assert main(given) == 1
    assert "rolldeck rollout: No space left on device" in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_whole_groups_are_written(
    checkpoint: Path, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    paths = [ROOT, ROOT / "platform", ROOT / "client"]
    code = "import sys; from rolldeck.cli import main; sys.exit(main(sys.argv[1:]))"
    given = words(checkpoint, "--lesson", "sampled", "--groups", "1000000", "--out", str(out))
    with processes.start(
        [sys.executable, "-c", code, *given],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        eventually(lambda: [*out.glob("groups-*.msgpack")], 120.0)
        command.send_signal(number)
        shown, err = command.communicate(timeout=60)

    assert (command.returncode, err) == (128 + number, "")
    groups = list(read_groups(out))
    assert len(groups) == json.loads(shown)["groups"] >= 128
    assert {one.sequences for one in groups} == {4}
    assert not list(out.glob(".*"))
