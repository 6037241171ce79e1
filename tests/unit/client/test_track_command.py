"""`rolldeck run track` reports missing packages and wrong options, and batches keep their rows."""

import math
import sys
from pathlib import Path

import pytest

from rolldeck.cli import main
from rolldeck.trackers.contract import ROLLOUT_COLUMNS, RolloutSample, Scalar, TrackedBatch
from rolldeck.trackers.source import EVENTS_KEPT, Position
from tests.unit.client.failing_server import Planned, Seen, serving

RUN = (
    b'{"id": 3, "name": "demo", "kind": "fleet", "status": "running", "registered_at": null,'
    b' "archived_at": null, "created_at": "2026-11-26T12:00:00Z", "served_steps": 0}'
)
PACKAGES = {
    "mlflow": "mlflow",
    "tensorboard": "tensorboard.compat",
    "trackio": "trackio",
    "wandb": "wandb",
}


def one_run(request: Seen) -> Planned:
    """Answer with a run."""
    assert request.path.startswith("/api/v1/runs/demo")
    return Planned(body=RUN)


@pytest.mark.parametrize(("tracker", "module"), sorted(PACKAGES.items()))
def test_a_missing_package_is_named_with_its_installation(
    tracker: str,
    module: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with serving(one_run) as server:
        argv = [
            "--url",
            server.url,
            "run",
            "track",
            "demo",
            "--to",
            tracker,
            "--state",
            str(tmp_path),
        ]
        assert main(argv) == 1

    assert f"install it with: pip install {tracker}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "comet"], "'comet' is not one of 'mlflow'"),
        (["--to", "wandb", "--every", "0"], "0.0 is not in the range 0.1<=x<=3600"),
        (["--to", "wandb", "--rollouts", "51"], "51 is not in the range 0<=x<=50"),
        (["--to", "wandb", "--rollouts", "few"], "--rollouts"),
        ([], "--to"),
    ],
)
def test_an_invalid_option_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "track", "demo", *words]) == 2

    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--tracker-url", "http://x"],
            "--tracker-url applies to mlflow and trackio, not to wandb",
        ),
        (["--logdir", "x"], "--logdir applies to tensorboard, not to wandb"),
    ],
)
def test_an_option_of_another_tracker_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "track", "demo", "--to", "wandb", *words]) == 2

    assert message in capsys.readouterr().err


def test_scalars_recorded_together_are_one_row() -> None:
    scalars = [
        Scalar("loss", 2, 0.5, 20.0),
        Scalar("loss", 1, 0.75, 10.0),
        Scalar("reward", 1, math.inf, 10.0),
        Scalar("reward", 1, 3.0, 10.0),
    ]

    rows = list(TrackedBatch(scalars=scalars).rows())

    assert rows == [
        (1, 10.0, {"loss": 0.75, "reward": math.inf}),
        (1, 10.0, {"reward": 3.0}),
        (2, 20.0, {"loss": 0.5}),
    ]
    assert not TrackedBatch()


def test_a_rollout_has_its_messages_as_text() -> None:
    messages = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]
    sample = RolloutSample("7", 1, "eval", 5.0, 3, "math", 0.5, 12, messages)
    text = "user: 2 + 2?\n\nassistant: 4"

    assert sample.row() == ["7", 1, "eval", 5.0, 3, "math", 0.5, 12, text]
    assert len(sample.row()) == len(ROLLOUT_COLUMNS)


def test_a_position_remembers_the_newest_events_one_by_one() -> None:
    position = Position(run_id=1)

    position.add_events(list(range(2, EVENTS_KEPT + 12, 2)))
    position.add_events([7])
    assert (position.events_before, 7 in position.events, 5 in position.events) == (0, True, False)
    position.add_events(list(range(1000, 1000 + EVENTS_KEPT)))

    assert len(position.events) == EVENTS_KEPT
    assert position.events_before == EVENTS_KEPT + 10
