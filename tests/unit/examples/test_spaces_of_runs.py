"""The example trainers build the environment of a run as its fleet does, with its wrappers."""

from collections.abc import Callable
from typing import Any

import pytest

from examples import ppo_cartpole, ppo_continuous, ppo_recurrent
from examples.own_policy.own_policy import network
from rollouts.fleet.environments.contract import UnknownEnvironment
from rollouts.fleet.environments.run_spaces import spaces_of
from runs.config.rules import run_config

WRAPPER = "module:gymnasium.wrappers:FlattenObservation"
MOUNTAIN = "module:gymnasium.envs.classic_control.continuous_mountain_car:Continuous_MountainCarEnv"
CARTPOLE = "module:gymnasium.envs.classic_control.cartpole:CartPoleEnv"
EXAMPLES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "ppo_cartpole": (ppo_cartpole.policy_for, CARTPOLE),
    "ppo_recurrent": (ppo_recurrent.policy_for, CARTPOLE),
    "ppo_continuous": (ppo_continuous.policy_for, MOUNTAIN),
}


def config_of(spec: str, *wrappers: str) -> dict[str, Any]:
    """Return the configuration of a run whose wrappers stack four observations."""
    given = {"kind": "module:gymnasium.wrappers:FrameStackObservation", "kwargs": {"stack_size": 4}}
    config = run_config.parse(
        {
            "environment": {
                "spec": spec,
                "wrappers": [given, *({"kind": one} for one in wrappers)],
            },
            "policy": {"hidden_sizes": [8]},
        }
    )
    return dict(run_config.to_builtins(config))


@pytest.fixture
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLDECK_ENVIRONMENTS", f"{MOUNTAIN},{CARTPOLE}")
    wrappers = f"{WRAPPER},module:gymnasium.wrappers:FrameStackObservation"
    monkeypatch.setenv("ROLLDECK_ENVIRONMENT_WRAPPERS", wrappers)


@pytest.mark.usefixtures("_registered")
@pytest.mark.parametrize("example", EXAMPLES)
def test_a_policy_fits_a_registered_environment_in_its_wrappers(example: str) -> None:
    policy_for, spec = EXAMPLES[example]

    policy = policy_for(config_of(spec, WRAPPER))

    inputs = 4 * (2 if spec == MOUNTAIN else 4)
    assert next(iter(policy.policy_net.parameters())).shape == (8, inputs)


@pytest.mark.usefixtures("_registered")
def test_an_own_policy_fits_them_too() -> None:
    observation, action = spaces_of(config_of(CARTPOLE, WRAPPER))

    policy = network.LstmPolicy(observation, action, units=8)

    assert policy.encoder[0].weight.shape == (8, 16)


@pytest.mark.parametrize(
    ("policy_for", "spec"),
    [
        (ppo_cartpole.policy_for, "gymnasium:Pendulum-v1"),
        (ppo_continuous.policy_for, "gymnasium:CartPole-v1"),
    ],
)
def test_spaces_that_an_example_does_not_learn_from_are_named(
    policy_for: Callable[[Any], Any], spec: str
) -> None:
    config = run_config.to_builtins(run_config.parse({"environment": {"spec": spec}}))

    with pytest.raises(ValueError, match="this trainer learns from one Box and for"):
        policy_for(config)


def test_an_environment_that_is_not_registered_here_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ROLLDECK_ENVIRONMENTS", raising=False)

    with pytest.raises(UnknownEnvironment, match=r"CartPoleEnv is not registered on .*ROLLDECK_E"):
        ppo_cartpole.policy_for(config_of(CARTPOLE))
