"""Play one episode of random actions, to probe an environment."""

import math
import time
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rollouts.fleet.environments.contract import Environment
from rollouts.fleet.environments.interface import begun, stepped
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.probe.messages import Episode

SHOWN_REWARDS = 100
_WIDE = 1.0
"""Bound that replaces an infinite one, for random actions between −1 and 1."""


def play(
    environment: Environment, shown: Space, taken: Space, *, steps: int, seconds: float = math.inf
) -> Episode:
    """Play until the episode ends or a limit is reached.

    Args:
        environment: Environment, which is reset.
        shown: Observation space.
        taken: Action space.
        steps: Maximum number of steps.
        seconds: Time after which no further step is taken.

    Raises:
        WrongInterface: If `reset` or `step` returns something else than Gymnasium's values.
    """
    rng = np.random.default_rng(0)
    obs, _ = begun(environment.reset(seed=0))
    outside = space_mismatch(obs, shown)
    rewards: list[float] = []
    ended: Literal["terminated", "truncated", "cut"] = "cut"
    began = time.perf_counter()
    while len(rewards) < steps and ended == "cut" and time.perf_counter() - began < seconds:
        answer = environment.step(random_action(taken, rng))
        obs, reward, terminated, truncated, _ = stepped(answer)
        rewards.append(float(reward))
        outside = outside or space_mismatch(obs, shown)
        if terminated or truncated:
            ended = "terminated" if terminated else "truncated"
    total = math.fsum(rewards) if all(map(math.isfinite, rewards)) else None
    return Episode(
        steps=len(rewards),
        ended=ended,
        total_return=total,
        rewards=[one if math.isfinite(one) else None for one in rewards[:SHOWN_REWARDS]],
        steps_per_second=round(len(rewards) / max(time.perf_counter() - began, 1e-9), 1),
        outside=outside,
    )


def random_action(space: Space, rng: np.random.Generator) -> Any:
    """Return a random action in the environment's form."""
    if space.kind == "discrete":
        return int(space.start + rng.integers(space.choices))
    if space.kind == "multi_discrete":
        return rng.integers(space.each_choices).astype(space.array_dtype)
    return _in_box(space, rng)


def _in_box(space: Space, rng: np.random.Generator) -> NDArray[Any]:
    size = math.prod(space.shape)
    low = np.asarray(space.low or [-_WIDE] * size)
    high = np.asarray(space.high or [_WIDE] * size)
    low = np.where(np.isfinite(low), low, -_WIDE)
    high = np.where(np.isfinite(high), high, _WIDE)
    row = rng.uniform(low, np.maximum(low, high))
    return row.reshape(space.shape).astype(space.array_dtype)


def space_mismatch(obs: Any, space: Space) -> str:
    """Return how an observation differs from its space; empty if it fits."""
    if space.parts:
        return ""  # built by its encoder
    shape = np.shape(obs)
    if tuple(shape) != tuple(space.shape):
        return f"an observation has shape {list(shape)}, its space {list(space.shape)}"
    array = np.asarray(obs)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return "an observation is not finite"
    return ""
