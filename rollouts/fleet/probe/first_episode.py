"""Play one episode of random actions, to probe an environment."""

import math
import time
from typing import Any, Literal

import numpy as np

from rollouts.fleet.environments.contract import Environment, WrongInterface
from rollouts.fleet.policies.spaces import (
    Bounds,
    InvalidValue,
    Space,
    bounds_of,
    invalid_rows,
    observations,
)
from rollouts.fleet.policies.spaces import outside as outside_bounds
from rollouts.fleet.probe.messages import Episode

SHOWN_REWARDS = 100
_WIDE = 1.0
"""Bound that replaces an infinite one, for random actions between −1 and 1."""


def play(
    environment: Environment, shown: Space, taken: Space, *, steps: int, seconds: float = math.inf
) -> Episode:
    """Reset the environment and play until the episode ends or a limit is reached.

    Raises:
        WrongInterface: If `reset` or `step` returns something else than Gymnasium's values.
    """
    rng = np.random.default_rng(0)
    obs, _ = environment.reset(seed=0)
    bounds = bounds_of(shown)
    outside = space_mismatch(obs, shown, bounds)
    rewards: list[float] = []
    ended: Literal["terminated", "truncated", "cut"] = "cut"
    began = time.perf_counter()
    while len(rewards) < steps and ended == "cut" and time.perf_counter() - began < seconds:
        try:
            obs, reward, terminated, truncated, _ = environment.step(random_action(taken, rng))
        except WrongInterface:
            raise
        except InvalidValue as error:
            outside = outside or f"step {len(rewards) + 1}: {error}"
            break
        rewards.append(float(reward))
        outside = outside or space_mismatch(obs, shown, bounds)
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
    size = math.prod(space.shape)
    low = np.asarray(space.low or [-_WIDE] * size)
    high = np.asarray(space.high or [_WIDE] * size)
    low = np.where(np.isfinite(low), low, -_WIDE)
    high = np.where(np.isfinite(high), high, _WIDE)
    row = rng.uniform(low, np.maximum(low, high))
    return row.reshape(space.shape).astype(space.array_dtype)


def space_mismatch(obs: Any, space: Space, bounds: Bounds | None = None) -> str:
    """Return how an observation differs from its space, and from `bounds`; empty if it fits."""
    try:
        rows = observations(space)[1](obs)[None]
    except InvalidValue as error:
        return str(error)
    if invalid := invalid_rows(space, rows, "obs"):
        return invalid[0]
    beyond = outside_bounds(bounds or [], rows, "obs")
    return beyond[1] if beyond else ""
