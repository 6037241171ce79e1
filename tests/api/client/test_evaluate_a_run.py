"""`rolldeck evaluate policy --run` evaluates a version that a run on the platform has published."""

import json
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from rolldeck.cli import main
from rolldeck.trainer import Trainer
from rollouts.fleet.policies.networks import MlpPolicy
from runs.lifecycle.models import Run, RunKind
from tests.factories import make_run, make_token

pytestmark = pytest.mark.django_db(transaction=True)

CONFIG = {"policy": {"hidden_sizes": [8]}, "evaluation": {"episodes": 3}}
LANGUAGE = {"language": {"lessons": {"add": {"spec": "task:addition"}}}}


def trainer_of(live_server: LiveServer, run: Run, *, epoch: int = 1) -> Trainer:
    trainer = Trainer(live_server.url, run.name, make_token("trainer", run=run)[1])
    assert trainer.register().epoch == epoch
    return trainer


def state(hidden: int = 8) -> dict[str, Any]:
    return MlpPolicy(4, 2, [hidden]).state_dict()


def evaluate(live_server: LiveServer, *arguments: str, token: str | None = None) -> int:
    to = ["--url", live_server.url, "--token", token or make_token("read")[1], "--retry-for", "0"]
    return main(["evaluate", "policy", *arguments, *to])


def test_the_newest_version_is_evaluated_with_the_configuration_of_the_run(
    live_server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(config=CONFIG)
    with trainer_of(live_server, run) as trainer:
        trainer.publish_weights(state(), step=0)
        trainer.publish_weights(state(), step=4)

    assert evaluate(live_server, "--run", "alpha", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["run"], found["epoch"], found["version"]) == ("alpha", 1, 4)
    assert (found["environment"], found["count"]) == ("gymnasium:CartPole-v1", 3)
    assert evaluate(live_server, "--run", "alpha", "--episodes", "1") == 0
    assert "version      4\n" in capsys.readouterr().out


def test_an_earlier_version_is_evaluated_and_the_newest_epoch_is_preferred(
    live_server: LiveServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = make_run(config=CONFIG)
    with trainer_of(live_server, run) as trainer:
        trainer.publish_weights(state(), step=0)
        trainer.publish_weights(state(), step=1)
    with trainer_of(live_server, run, epoch=2) as trainer:
        trainer.publish_weights(state(), step=0)
    monkeypatch.setenv("ROLLDECK_URL", live_server.url)
    monkeypatch.setenv("ROLLDECK_TOKEN", make_token("read")[1])

    found = []
    for step in ("0", "1"):
        assert main(["evaluate", "policy", "--run", "alpha", "--version", step, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))

    assert [(one["epoch"], one["version"]) for one in found] == [(2, 0), (1, 1)]


def test_a_run_that_cannot_be_evaluated_is_one_line(
    live_server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(name="fresh", config=CONFIG)
    make_run(name="words", config=LANGUAGE)
    make_run(name="pushed", kind=RunKind.OUTSIDE)
    run = make_run(name="wide", config=CONFIG)
    with trainer_of(live_server, run) as trainer:
        trainer.publish_weights(state(hidden=9), step=0)
    cases = {
        ("fresh",): "run 'fresh' has no published weights",
        ("words",): "run 'words' is a language run; it has no step policy",
        ("pushed",): "run 'pushed' is an outside run; it has no step policy",
        ("missing",): "run 'missing' not found",
        ("wide", "--version", "7"): "run 'wide' has no version 7",
        ("wide",): "names or shapes differ",
    }

    for (name, *further), reason in cases.items():
        assert evaluate(live_server, "--run", name, *further) == 1, name
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith("rolldeck evaluate policy: "), line
        assert reason in line, line


def test_an_invalid_token_and_an_invalid_number_have_different_codes(
    live_server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(config=CONFIG)
    with trainer_of(live_server, run) as trainer:
        trainer.publish_weights(state(), step=0)

    assert evaluate(live_server, "--run", "alpha", token="rd_wrong") == 1
    assert "ROLLDECK_TOKEN" in capsys.readouterr().err
    assert evaluate(live_server, "--run", "alpha", "--episodes", "0") == 2
    assert "evaluation.episodes" in capsys.readouterr().err


def test_weights_of_a_shared_folder_are_read_from_it(
    live_server: LiveServer,
    capsys: pytest.CaptureFixture[str],
    settings: Any,
    tmp_path: Path,
) -> None:
    settings.ROLLDECK_WEIGHTS_DIRECTORY = str(tmp_path)
    run = make_run(config=CONFIG | {"fleet": {"weights_transport": "directory"}})
    with trainer_of(live_server, run) as trainer:
        trainer.publish_weights(state(), step=0)
        assert trainer.registration is not None
        folder = Path(trainer.registration.weights_directory)

    assert evaluate(live_server, "--run", "alpha") == 1
    assert "shared weights folder" in capsys.readouterr().err
    given = ("--run", "alpha", "--weights-directory")
    assert evaluate(live_server, *given, str(tmp_path)) == 1
    assert "does not exist" in capsys.readouterr().err
    assert evaluate(live_server, *given, str(folder), "--json") == 0
    assert json.loads(capsys.readouterr().out)["version"] == 0
    [content] = folder.glob("*.safetensors")
    *whole, last = content.read_bytes()
    content.write_bytes(bytes([*whole, last ^ 1]))
    assert evaluate(live_server, *given, str(folder)) == 1
    assert "does not match its checksum" in capsys.readouterr().err
