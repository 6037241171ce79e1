"""Lockstep makes data of an exact age, the same every time."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.lockstep import LockstepFleet, train
from rollouts.fleet.policies.networks import MlpPolicy
from runs.config.rules.fleet_config import FleetConfig
from runs.config.rules.run_config import RunConfig
from runs.config.rules.sections import BufferConfig, PolicyConfig

CONFIG = RunConfig(
    policy=PolicyConfig(hidden_sizes=[8]),
    fleet=FleetConfig(fragment_length=16),
    buffer=BufferConfig(batch_size=3),
)


def fresh_weights() -> dict[str, NDArray[Any]]:
    torch.manual_seed(0)
    return {name: x.numpy() for name, x in MlpPolicy(4, 2, [8]).state_dict().items()}


def batches(*, versions_behind: int, steps: int = 6, seed: int = 0) -> list[Mapping[str, Any]]:
    seen: list[Mapping[str, Any]] = []
    train(
        LockstepFleet(CONFIG, seed=seed),
        weights=fresh_weights,
        learn=lambda arrays, _: seen.append(arrays),
        train_steps=steps,
        versions_behind=versions_behind,
    )
    return seen


def test_data_has_the_configured_staleness() -> None:
    now = [int(arrays["policy_step"].max()) for arrays in batches(versions_behind=0)]
    late = [int(arrays["policy_step"].max()) for arrays in batches(versions_behind=4)]

    assert now == [0, 1, 2, 3, 4, 5]
    assert late == [0, 0, 0, 0, 0, 1]


def test_every_slot_has_one_fragment_without_lost_steps_between_two() -> None:
    first, second, *_ = batches(versions_behind=0)

    assert first["obs"].shape == (3, 16, 4)
    assert first["mask"].all()
    assert second["contiguous"].all()
    np.testing.assert_array_equal(first["next_obs"], second["obs"][:, 0])


def test_the_same_seed_gives_the_same_steps_and_another_one_does_not() -> None:
    one, same, other = (batches(versions_behind=0, steps=2, seed=seed)[1] for seed in (1, 1, 2))

    np.testing.assert_array_equal(one["obs"], same["obs"])
    assert (one["obs"] != other["obs"]).any()


def test_returns_are_those_of_the_episodes() -> None:
    fleet = LockstepFleet(CONFIG, seed=0)
    fleet.policy.load(fresh_weights())

    fragments = [fragment for _ in range(4) for fragment in fleet.fragments(0)]

    # CartPole pays 1 a step: what was not paid out yet belongs to the episodes under way.
    assert fleet.env_steps == 3 * 4 * 16 == sum(fragment.steps for fragment in fragments)
    paid = sum(value for _, value in fleet.returns)
    assert 0 < paid < fleet.env_steps
    assert fleet.mean_return(len(fleet.returns)) == paid / len(fleet.returns)
    assert fleet.mean_return(10_000) < 0
