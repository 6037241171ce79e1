"""The example trainers really learn, on the fleet's policies and fragments in lockstep.

Every figure is the same in every repetition. Bounds leave room for other versions of torch.
"""

import pytest
import torch

from benchmarks.lockstep import LockstepFleet, train
from examples import ppo_continuous
from runs.core.run_config import PRESETS

pytestmark = pytest.mark.system


def test_a_pendulum_is_swung_up_by_actions_that_no_environment_sees_unclipped() -> None:
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

    # A policy that does nothing gets about -1,200.
    assert fleet.mean_return() > -250, f"after {steps} train steps"
