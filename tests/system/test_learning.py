"""The example trainers learn, on the fleet's policies and fragments in lockstep.

All figures are reproducible. The bounds leave a margin for other versions of torch.
"""

import math
from typing import Any

import msgspec
import pytest
import torch
from numpy.typing import NDArray

from benchmarks.lockstep import LockstepFleet, train
from examples import ppo_cartpole, ppo_continuous, ppo_recurrent
from runs.config.rules import run_config
from runs.config.rules.run_config import PRESETS

pytestmark = [
    pytest.mark.system,
    pytest.mark.release("starts, loads and kills servers for minutes"),
]


def test_a_pendulum_is_swung_up() -> None:
    config = PRESETS["pendulum"][1]
    torch.manual_seed(0)
    policy = ppo_continuous.GaussianPolicy(3, 1, config.policy.hidden_sizes)
    learner = ppo_continuous.Learner(policy, ppo_continuous.PpoSettings(), seed=0)
    fleet = LockstepFleet(config, seed=0)

    steps = train(
        fleet,
        weights=lambda: {name: x.numpy() for name, x in policy.folded().items()},
        learn=lambda arrays, _: learner.learn(arrays),
        train_steps=70,
        versions_behind=config.buffer.max_staleness,
        until=lambda: fleet.mean_return() > -250,
    )

    # An idle policy gets about -1,200.
    assert fleet.mean_return() > -250, f"after {steps} train steps"


def test_a_cart_pole_stays_balanced_with_batches_of_a_quarter_of_the_preset() -> None:
    changes = {"fleet": {"fragment_length": 64}, "buffer": {"batch_size": 8, "max_staleness": 2}}
    preset = run_config.to_builtins(PRESETS["cartpole"][1])
    config = run_config.parse(run_config.merged(preset, changes))
    torch.manual_seed(7)
    policy = ppo_cartpole.policy_for(run_config.to_builtins(config))
    learner = ppo_cartpole.Learner(policy, ppo_cartpole.PpoSettings(), seed=7)
    fleet = LockstepFleet(config, seed=7)
    means: list[float] = []

    def learn(arrays: dict[str, NDArray[Any]], step: int) -> None:
        learner.learn(arrays, step)
        means.append(fleet.mean_return())

    train(
        fleet,
        weights=lambda: {name: x.numpy() for name, x in policy.state_dict().items()},
        learn=learn,
        train_steps=300,
        versions_behind=config.buffer.max_staleness,
    )

    solved = next(step for step, mean in enumerate(means) if mean >= 475)
    assert min(means[solved:]) > 400, f"solved after {solved} train steps"


def recall_learner(kind: str) -> tuple[LockstepFleet, ppo_recurrent.Learner]:
    preset = PRESETS["recall"][1]
    config = msgspec.structs.replace(
        preset, policy=msgspec.structs.replace(preset.policy, kind=kind)
    )
    torch.manual_seed(0)
    policy = ppo_recurrent.policy_for(run_config.to_builtins(config))
    learner = ppo_recurrent.Learner(policy, ppo_recurrent.PpoSettings(), seed=0)
    return LockstepFleet(config, seed=0), learner


def train_on_recall(kind: str, *, train_steps: int, until: float = math.inf) -> float:
    """Return the mean return of the last 200 episodes."""
    fleet, learner = recall_learner(kind)
    train(
        fleet,
        weights=lambda: {name: x.numpy() for name, x in learner.policy.state_dict().items()},
        learn=lambda arrays, _: learner.learn(arrays),
        train_steps=train_steps,
        versions_behind=1,
        until=lambda: fleet.mean_return(200) >= until,
    )
    return fleet.mean_return(200)


def test_a_recurrent_policy_recalls_the_cue() -> None:
    assert train_on_recall("gru", train_steps=100, until=0.9) >= 0.9


def test_without_recurrence_the_same_trainer_only_guesses() -> None:
    # Guessing one of four cues: 0.25, plus or minus 0.1 over 200 episodes.
    assert 0.1 < train_on_recall("mlp", train_steps=60) < 0.4
