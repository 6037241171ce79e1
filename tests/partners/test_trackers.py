"""`rolldeck run track` with the real packages of W&B, MLflow, Trackio and TensorBoard, offline."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from runs.lifecycle.rules import RunVerb
from tests.live_server import serving
from tests.partners.tracked_run import (
    ANSWER,
    PROJECT,
    PYTHON,
    QUESTION,
    ROOT,
    LanguageRun,
    MlflowServer,
    TrackedRun,
    Tracking,
    running,
)
from tests.waiting import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.partner]

TRACKERS = ("mlflow", "tensorboard", "trackio", "wandb")


@pytest.fixture
def run() -> Iterator[TrackedRun]:
    with serving() as base:
        run = TrackedRun(base)
        yield run
        run.http.close()
    connection.close()


@pytest.fixture
def mlflow_server(tmp_path: Path) -> Iterator[MlflowServer]:
    server = MlflowServer(tmp_path)
    server.start()
    yield server
    server.kill()


def rounded(scalars: dict[str, list[list[float]]]) -> dict[str, list[list[float]]]:
    """Return sorted values in single precision, which TensorBoard stores."""
    return {
        name: sorted([step, round(value, 6)] for step, value in rows)
        for name, rows in scalars.items()
    }


@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_tracker_gets_scalars_lifecycle_and_rollouts_of_a_run(
    run: TrackedRun, tmp_path: Path, tracker: str
) -> None:
    tracking = Tracking(tracker, tmp_path, run)
    run.train(20)
    with running(tracking) as process:
        eventually(lambda: tracking.has_sent("loss", 20), interval_seconds=0.1)
        run.push_group()
        run.change(RunVerb.PAUSE, reason="lunch")
        run.change(RunVerb.RESUME)
        run.train(20)
        eventually(lambda: tracking.has_sent("loss", 40), interval_seconds=0.1)
        run.change(RunVerb.KILL)
        tracking.finish(process)

    found = tracking.contents()
    assert rounded(found["scalars"]) == rounded(run.scalars()), tracking.log()
    assert (found["runs"], found["name"], found["group"]) == (1, run.name, "grpo")
    assert "batch_size" in found["config"]
    kinds = [text.split()[0].strip("*:") for text in found["events"]]
    assert kinds.count("paused") == 1
    assert kinds.count("running") == 1
    assert kinds[-1] == "stopped"
    assert any("lunch" in text for text in found["events"])
    assert len(found["rollouts"]) == 2
    assert all(QUESTION in text and ANSWER in text for text in found["rollouts"])


@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_tracker_gets_prompts_lessons_and_evaluations_of_a_language_run(
    tmp_path: Path, tracker: str
) -> None:
    with serving() as base:
        run = LanguageRun(base)
        tracking = Tracking(tracker, tmp_path, run)
        sample = {"prompt": "evaluated>", "response": "detaulave", "reward": 1, "is_correct": True}
        run.push_answers("one-good", "much does Ana pay?", "Ana pays 6 coins.", "error")
        run.report("one-good", 64, mode="train")
        evaluated = run.evaluate(sample)
        micro = {**sample, "prompt": "micro>", "response": "orcim"}
        run.report("larger-prices", 8, mode="micro_eval", samples=[micro])
        run.change(RunVerb.KILL)
        # A trainer of a run with a fleet does not name the project.
        tracking.finish(tracking.start("--project", PROJECT, "--group", "grpo"))
        run.http.close()

    found = tracking.contents()
    kinds = [text.split()[0].strip("*:") for text in found["events"]]
    assert {"lesson_graduated", "lesson_unlocked"} <= set(kinds), found["events"]
    for mode, lesson, text in (
        ("train", "one-good", "prompt: much does Ana pay?\n\nresponse: Ana pays 6 coins."),
        ("train", "one-good", "prompt: much does Ana pay?\n\nresponse: error"),
        ("eval", evaluated, "prompt: evaluated>\n\nresponse: detaulave"),
        ("micro_eval", "larger-prices", "prompt: micro>\n\nresponse: orcim"),
    ):
        rows = [one for one in found["rollouts"] if text in one]
        assert [mode in one and lesson in one for one in rows] == [True], found["rollouts"]
    connection.close()


@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_killed_follower_continues_without_loss(
    run: TrackedRun, tmp_path: Path, tracker: str
) -> None:
    tracking = Tracking(tracker, tmp_path, run)
    run.train(30)
    with running(tracking) as process:
        eventually(lambda: tracking.has_sent("loss", 30), interval_seconds=0.1)
        run.train(5)
        process.kill()
        process.wait(30)
    run.train(5)
    run.change(RunVerb.KILL)

    tracking.finish(tracking.start())

    stored = {
        name: {tuple(row) for row in rows}
        for name, rows in rounded(tracking.contents()["scalars"]).items()
    }
    expected = {name: {tuple(row) for row in rows} for name, rows in rounded(run.scalars()).items()}
    assert stored == expected, tracking.log()


def test_a_dead_mlflow_server_loses_nothing_and_slows_nothing(
    run: TrackedRun, tmp_path: Path, mlflow_server: MlflowServer
) -> None:
    tracking = Tracking("mlflow", tmp_path, run, mlflow_server.uri)
    run.train(10)
    alive = seconds_of_pushes(run)
    with running(tracking) as process:
        eventually(lambda: tracking.has_sent("loss", 10), interval_seconds=0.1)
        mlflow_server.kill()
        dead = seconds_of_pushes(run)
        run.change(RunVerb.PAUSE)
        run.train(10)
        eventually(lambda: "nothing is lost" in tracking.log(), interval_seconds=0.1)
        assert process.poll() is None
        mlflow_server.start()
        run.change(RunVerb.RESUME)
        run.change(RunVerb.KILL)
        tracking.finish(process)

    found = tracking.contents()
    assert rounded(found["scalars"]) == rounded(run.scalars())
    assert {"paused", "running", "stopped"} <= {text.split()[0] for text in found["events"]}
    assert (found["runs"], found["status"]) == (1, "KILLED")
    assert dead < 3 * alive + 0.5


def seconds_of_pushes(run: TrackedRun) -> float:
    began = time.monotonic()
    for _ in range(20):
        run.push_group()
    return time.monotonic() - began


def test_a_refused_metric_ends_the_command_and_loses_nothing(
    run: TrackedRun, tmp_path: Path
) -> None:
    tracking = Tracking("mlflow", tmp_path, run)
    run.train(3)
    refused: dict[str, Any] = {"samples": [{"name": "a//b", "step": 0, "value": 1.0}]}
    run.post("/api/v1/runs/sums/metrics", refused)
    run.change(RunVerb.KILL)

    assert tracking.start().wait(120) == 1
    log, position = tracking.log(), tracking.position()
    tracking.finish(tracking.start("--exclude", "a//*"))

    assert "mlflow" in log
    assert "a//b" in log
    assert position == {}
    scalars = run.scalars()
    del scalars["a//b"]
    assert rounded(tracking.contents()["scalars"]) == rounded(scalars)


def test_missing_credentials_end_the_command_with_their_remedy(
    run: TrackedRun, tmp_path: Path
) -> None:
    tracking = Tracking("wandb", tmp_path, run)
    tracking.variables = {"WANDB_MODE": "online", "WANDB_API_KEY": "", "HOME": str(tmp_path)}

    assert tracking.start().wait(120) == 1

    assert "rolldeck: wandb: No API key configured. Use `wandb login`" in tracking.log()
    assert tracking.position() == {}


def test_an_environment_reports_its_pushes_and_its_pauses(run: TrackedRun, tmp_path: Path) -> None:
    tracking = Tracking("wandb", tmp_path, run)
    run.http.get("/atropos/sums/batch").raise_for_status()
    command = [PYTHON, ROOT / "tests/partners/tracked_environment.py", run.base, run.token]
    with (tmp_path / "track.log").open("w") as log:
        environment = subprocess.Popen(
            command, cwd=tmp_path, env=tracking.environment(), stdout=log, stderr=log
        )
    try:
        eventually(lambda: run.has_groups(3), interval_seconds=0.1)
        run.change(RunVerb.PAUSE)
        eventually(lambda: '"paused"' in (tmp_path / "events.jsonl").read_text())
        run.change(RunVerb.RESUME)
        eventually(lambda: '"resumed"' in (tmp_path / "events.jsonl").read_text())
        environment.terminate()
        assert environment.wait(60) == 0, tracking.log()
    finally:
        environment.kill()

    found = tracking.contents()
    kinds = [text.split(":")[0] for text in found["events"]]
    assert (found["runs"], found["name"], found["group"]) == (1, "addition_0", "grpo")
    assert [kind for kind in kinds if kind in ("resumed", "disconnected")] == [
        "resumed",
        "disconnected",
    ]
    assert "paused" in kinds
    sent = [value for _, value in found["scalars"]["environment/groups_sent"]]
    assert sent == list(range(1, len(sent) + 1))
    assert len(sent) >= 3


def test_a_wandb_process_that_ends_loses_nothing(run: TrackedRun, tmp_path: Path) -> None:
    import psutil

    tracking = Tracking("wandb", tmp_path, run)
    run.train(10)
    with running(tracking) as process:
        eventually(lambda: tracking.has_sent("loss", 10), interval_seconds=0.1)
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        run.train(10)
        run.change(RunVerb.KILL)
        tracking.finish(process)

    assert {
        name: sorted({tuple(row) for row in rows})
        for name, rows in rounded(tracking.contents()["scalars"]).items()
    } == {name: [tuple(row) for row in rows] for name, rows in rounded(run.scalars()).items()}
