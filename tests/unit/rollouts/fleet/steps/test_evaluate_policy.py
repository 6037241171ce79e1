"""`rolldeck evaluate policy` needs only weights and a configuration."""

import json
from pathlib import Path

import pytest

from rolldeck import safetensors
from rollouts.fleet.groups.evaluate import main
from rollouts.fleet.policies.networks import MlpPolicy

CONFIG = '{"policy": {"hidden_sizes": [8]}}'


@pytest.fixture
def weights(tmp_path: Path) -> str:
    state = MlpPolicy(4, 2, [8]).state_dict()
    path = tmp_path / "weights.safetensors"
    path.write_bytes(safetensors.encode({n: value.numpy() for n, value in state.items()}))
    return str(path)


def test_weights_are_evaluated(weights: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["policy", "--weights", weights, "--config", CONFIG, "--episodes", "3"]

    assert main([*given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["environment"], found["count"]) == ("gymnasium:CartPole-v1", 3)
    assert found["return_mean"] == found["length_mean"] > 5
    assert main(given) == 0
    assert "return_mean" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["--config", CONFIG, "--episodes", "0"], 2, "evaluation.episodes"),
        (["--config", "missing.json"], 2, "missing.json"),
        (["--config", "{broken"], 2, "--config is not JSON"),
        (["--preset", "curriculum"], 2, "language: a language run has no step environment"),
        (["--config", '{"policy": {"hidden_sizes": [9]}}'], 1, "names or shapes differ"),
        (["--config", CONFIG, "--environment", "gymnasium:Missing-v0"], 1, "Missing"),
    ],
)
def test_a_failure_has_a_reason(
    weights: str,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    reason: str,
) -> None:
    assert main(["policy", "--weights", weights, *arguments]) == code
    assert reason in capsys.readouterr().err


def test_a_preset_and_a_configuration_are_merged(
    weights: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["policy", "--weights", weights, "--preset", "cartpole", "--config", CONFIG]

    assert main([*given, "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == 2


def test_a_file_of_another_format_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "--weights", __file__]) == 2
    assert "test_evaluate_policy.py is not a safetensors file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "one of the arguments --weights --run is required"),
        (["--weights", "w.safetensors", "--run", "alpha"], "not allowed with argument"),
        (["--run", "alpha", "--config", CONFIG], "--config and --preset need --weights"),
        (["--run", "alpha", "--preset", "cartpole"], "--config and --preset need --weights"),
        (["--weights", "w.safetensors", "--version", "3"], "need --run"),
        (["--weights", "w.safetensors", "--weights-directory", "w"], "need --run"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["policy", *arguments])

    assert ended.value.code == 2
    assert reason in capsys.readouterr().err
