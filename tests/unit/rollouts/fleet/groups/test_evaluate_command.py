"""`rolldeck evaluate` needs only a checkpoint."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rolldeck.cli import main
from rollouts.fleet.engine.checkpoints import load
from rollouts.fleet.engine.engine import Engine
from rollouts.fleet.engine.openai_api import OpenAiApi
from rollouts.fleet.engine.serving import EngineThread
from rollouts.fleet.engine.tokenizers import AlphabetTokenizer, load_tokenizer, save_tokenizer
from rollouts.fleet.groups.evaluate import InvalidLessons, read_lessons
from tests.stand_ins.inference_servers import SglangStandIn, listening
from tests.stand_ins.vllm_server import VllmStandIn
from tests.unit.rollouts.fleet.groups.small_checkpoints import LESSONS, make_checkpoint

ROOT = Path(__file__).resolve().parents[5]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return make_checkpoint(tmp_path / "small")


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    program = (
        "import sys; from rolldeck.cli import main; code = main(sys.argv[1:]);"
        "print([name for name in ('django', 'ray') if name in sys.modules], file=sys.stderr);"
        "sys.exit(code)"
    )
    path = os.pathsep.join(str(ROOT / part) for part in ("", "platform", "client"))
    return subprocess.run(
        [sys.executable, "-c", program, "evaluate", *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"PYTHONPATH": path},
        cwd=ROOT,
    )


def test_a_checkpoint_is_evaluated_in_a_process_without_web_and_cluster(
    checkpoint: Path, tmp_path: Path
) -> None:
    lessons = tmp_path / "lessons.json"
    lessons.write_text(json.dumps({"lessons": LESSONS}))
    words = ["--checkpoint", str(checkpoint), "--lessons", str(lessons), "--examples", "8"]
    ended = run(*words, "--generations", "4", "--temperature", "1", "--samples", "2", "--json")

    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.splitlines()[-1] == "[]"
    report = json.loads(ended.stdout)
    assert list(report) == ["reverse", "sampled"]
    for figures in report.values():
        assert (figures["problems"], figures["generations"]) == (8, 4)
        assert set(figures["pass_at"]) == {"1", "2", "4"}
        assert figures["pass_at"]["1"] == pytest.approx(figures["success"]["estimate"])
        assert len(figures["samples"]) == 2


def evaluate(checkpoint: Path, lessons: Any = LESSONS, *more: str) -> int:
    words = ["--checkpoint", str(checkpoint), "--lessons", json.dumps(lessons)]
    return main(["evaluate", *words, "--examples", "4", *more])


def test_a_table_has_every_lesson_and_is_reproducible(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(checkpoint, LESSONS, "--samples", "1") == 0
    first = capsys.readouterr().out
    assert evaluate(checkpoint, LESSONS, "--samples", "1") == 0

    assert capsys.readouterr().out == first
    head, *rows = first.splitlines()
    assert head.split()[:3] == ["lesson", "problems", "success"]
    assert [row.split()[:2] for row in rows[:2]] == [["reverse", "4"], ["sampled", "4"]]
    assert " → " in first


def test_a_failed_lesson_is_reported_and_the_others_shown(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(checkpoint, LESSONS | {"odd": {"spec": "task:chess"}}) == 1
    output = capsys.readouterr()

    assert "environment_unknown" in output.err
    assert [line.split()[:2] for line in output.out.splitlines()[1:]] == [
        ["reverse", "4"],
        ["sampled", "4"],
        ["odd", "0"],
    ]


def test_a_missing_or_incomplete_checkpoint_is_named(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(checkpoint / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, checkpoint / "model.safetensors")
    assert evaluate(checkpoint) == 1
    assert "model.norm.weight" in capsys.readouterr().err

    assert evaluate(checkpoint / "absent") == 1
    assert "config.json" in capsys.readouterr().err


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_tokenizer(AlphabetTokenizer("abcdefghijklmnop>"), checkpoint)

    assert evaluate(checkpoint) == 1
    assert "the tokenizer has 18 tokens, the model only" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lessons", "says"),
    [
        ('{"a": {"spec": 3}}', "spec"),
        ('{"a": {"spec": "task:sort", "size": 3}}', "size"),
        ("{}", "is empty"),
        ("{", "not JSON"),
        ("nowhere.json", "nowhere.json"),
    ],
)
def test_invalid_lessons_are_misuse(
    lessons: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidLessons, match=says):
        read_lessons(lessons)
    assert main(["evaluate", "--checkpoint", "x", "--lessons", lessons]) == 2
    assert says in capsys.readouterr().err
    assert main(["evaluate", "--checkpoint", "x", "--lessons", "{}", "--examples", "0"]) == 2


@pytest.mark.parametrize("kind", ["rolldeck", "vllm", "sglang"])
def test_every_kind_of_server_has_the_figures_of_this_process(
    checkpoint: Path,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert evaluate(checkpoint, LESSONS, "--json", "--generations", "2") == 0
    expected = json.loads(capsys.readouterr().out)
    with serving_checkpoint(checkpoint, kind, tmp_path) as url:
        settings = {"there": {"kind": kind, "url": url, "model": "small"}}
        monkeypatch.setenv("ROLLDECK_INFERENCE_SERVERS", json.dumps(settings))

        assert (
            evaluate(checkpoint, LESSONS, "--json", "--generations", "2", "--inference", "there")
            == 0
        )

    found = json.loads(capsys.readouterr().out)
    for name in LESSONS:
        for field in ("problems", "successes", "success", "pass_at", "reward", "tokens"):
            assert found[name][field] == expected[name][field]


def test_a_missing_server_is_named(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROLLDECK_INFERENCE_SERVERS", "{}")

    assert evaluate(checkpoint, LESSONS, "--inference", "there") == 1

    assert "'there' is not in this machine's ROLLDECK_INFERENCE_SERVERS" in capsys.readouterr().err


@contextmanager
def serving_checkpoint(folder: Path, kind: str, tmp_path: Path) -> Iterator[str]:
    """Serve a checkpoint with our server or a stand-in, and yield the URL."""
    model, tokenizer = load(folder), load_tokenizer(folder)
    if kind == "rolldeck":
        context = model.config.max_position_embeddings
        thread = EngineThread(Engine(model, rows=8, tokenizer=tokenizer), context=context)
        app = OpenAiApi(thread, tokenizer=tokenizer, model="small", context=context).app
    else:
        stand_in = VllmStandIn if kind == "vllm" else SglangStandIn
        server = stand_in(tmp_path / "served", model, tokenizer)
        thread, app = server.thread, server.app()
    try:
        with listening(app) as url:
            yield url
    finally:
        thread.close()
