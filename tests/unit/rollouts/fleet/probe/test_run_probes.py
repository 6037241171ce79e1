"""A probe of a run plays episodes, builds its policy and makes a fragment."""

import io
from contextlib import redirect_stderr
from typing import Any

import msgspec
import pytest

from rolldeck.cli import main
from rollouts.fleet.probe.command import probe
from rollouts.fleet.probe.messages import Outcome, ProbeRequest
from runs.config.rules import run_config

NAMES = (
    *("Plain", "SeedlessReset", "OnlyObservation", "TwoNumbers", "FourValues", "WithText"),
    *("LosesPart", "RewardArray", "RewardText", "HugeReward", "NotFinite", "RaisesLate"),
    *("Grey", "Large", "vector"),
)


def spec(name: str) -> str:
    return f"module:awkward_environments:{name}"


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLDECK_ENVIRONMENTS", ",".join(map(spec, NAMES)))


def tried(name: str, *, policy: str = "mlp", fragment_length: int = 8) -> Outcome:
    config = run_config.to_builtins(
        run_config.parse(
            {
                "environment": {"spec": spec(name)},
                "policy": {"kind": policy, "hidden_sizes": [8]},
                "fleet": {"fragment_length": fragment_length},
            }
        )
    )
    return probe(
        ProbeRequest(
            kind="environment",
            spec=spec(name),
            episode_steps=100,
            policy=config["policy"],
            run_config=config,
        )
    )


REFUSED: dict[str, tuple[str, ...]] = {
    "vector": ("is a vector environment: name the single one, or", "register_vector"),
    "SeedlessReset": ("reset takes no seed", "Gym before 0.26"),
    "OnlyObservation": ("reset returned a ndarray, not (observation, info)", "Gym before 0.26"),
    "TwoNumbers": ("reset returned a ndarray, not (observation, info)",),
    "WithText": ("observation space, part inner.text: Text is not supported", "wrappers."),
}
UNSTEPPABLE: dict[str, str] = {
    "FourValues": "step returned a tuple of 4 values, not five values",
    "LosesPart": "goal",
    "RewardArray": "reward has shape [2]",
    "RewardText": "",
    "NotFinite": "must be finite",
    "RaisesLate": "KeyError: 'goal'",
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_environment_with_another_interface_is_refused_by_name(name: str) -> None:
    outcome = tried(name)

    assert outcome.observation == ""
    for words in REFUSED[name]:
        assert words in outcome.trouble


@pytest.mark.parametrize("name", REFUSED)
def test_a_rollout_refuses_an_environment_with_the_words_of_the_probe(name: str) -> None:
    complaints = io.StringIO()
    arguments = ["--environment", spec(name), "--env-steps", "10", "--envs", "1", "--workers", "1"]

    with redirect_stderr(complaints):
        assert main(["rollout", *arguments]) == 1

    assert tried(name).trouble.partition(": ")[2] in complaints.getvalue()


@pytest.mark.parametrize("name", UNSTEPPABLE)
def test_an_environment_that_fails_in_a_step_is_in_trouble_after_its_construction(
    name: str,
) -> None:
    outcome = tried(name)

    assert outcome.trouble
    assert UNSTEPPABLE[name] in outcome.trouble
    assert outcome.observation


def test_a_reward_beyond_float32_is_in_trouble() -> None:
    outcome = tried("HugeReward")

    assert "reward is 1e+39; it must be finite in float32" in outcome.trouble


def test_a_built_in_policy_that_does_not_fit_is_in_trouble() -> None:
    outcome = tried("Plain", policy="cnn")

    assert outcome.trouble == ""
    assert "cnn needs images" in outcome.policy_trouble


def test_images_without_channels_fit_a_convolutional_policy() -> None:
    outcome = tried("Grey", policy="cnn")

    assert (outcome.trouble, outcome.policy_trouble) == ("", "")


@pytest.mark.parametrize("policy", ["mlp", "gru"])
@pytest.mark.parametrize("fragment_length", [3, 200])
def test_a_valid_run_makes_a_fragment_of_its_length(policy: str, fragment_length: int) -> None:
    outcome = tried("Plain", policy=policy, fragment_length=fragment_length)

    assert (outcome.trouble, outcome.policy_trouble, outcome.fragment_problem) == ("", "", "")
    assert outcome.episode
    assert outcome.episode.steps == 5
    assert fragment_length * outcome.bytes_per_step < outcome.fragment_bytes


def test_the_size_of_a_fragment_is_that_of_its_push() -> None:
    outcome = tried("Large", fragment_length=16)

    assert outcome.fragment_bytes > 16 * 512 * 512 * 3 * 4


def test_a_request_without_a_run_makes_no_fragment() -> None:
    request: Any = ProbeRequest(kind="environment", spec=spec("Plain"), episode_steps=5)

    outcome = probe(request)

    assert outcome.fragment_bytes == 0
    assert msgspec.to_builtins(outcome)["episode"]["steps"] == 5
