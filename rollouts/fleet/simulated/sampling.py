"""Simulated inference and environment, with configurable durations and failures.

Both run inside real workers. An administrator enables the environment, ``simulated:<name>``, by
adding this module to ``ROLLDECK_ENVIRONMENT_MODULES``. This module does not import torch.
"""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollouts.fleet.environments.contract import Environment
from rollouts.fleet.environments.loader import register
from rollouts.fleet.policies.policy_protocol import Decision, State
from rollouts.fleet.policies.spaces import Space


class SimulatedFailure(RuntimeError):
    """A simulated failure."""


class SimulatedInference:
    """Policy that takes a configurable time and acts at random."""

    def __init__(
        self,
        action: Space,
        *,
        seed: int,
        act_seconds: float = 0.0,
        spread: float = 0.3,
        failure_rate: float = 0.0,
    ) -> None:
        """Set up the policy; it uses no weights.

        Args:
            action: Action space.
            seed: Random seed.
            act_seconds: Mean duration of one inference, independent of the batch size.
            spread: Standard deviation of the duration, as a fraction of the mean.
            failure_rate: Fraction of inferences that fail.
        """
        self._action = action
        self._random = np.random.default_rng(seed)
        self._act_seconds = act_seconds
        self._spread = spread
        self._failure_rate = failure_rate

    def initial_state(self, batch: int) -> State:  # noqa: ARG002 protocol
        """Return an empty state: the policy is stateless."""
        return {}

    def act(self, obs: NDArray[Any], state: State, first: NDArray[np.bool_]) -> Decision:  # noqa: ARG002
        """Choose an action for each of ``obs [B, …]``.

        Raises:
            SimulatedFailure: With probability `failure_rate`.
        """
        _simulate_duration(self._random, self._act_seconds, self._spread)
        if self._random.random() < self._failure_rate:
            raise SimulatedFailure("the simulated inference failed")
        count = len(obs)
        actions: NDArray[Any]
        if self._action.kind == "discrete":
            actions = self._random.integers(0, self._action.choices, count)
        else:
            actions = self._random.standard_normal((count, *self._action.shape), np.float32)
        logprob = -np.log(max(1, self._action.size))
        return Decision(
            actions=actions,
            logprobs=np.full(count, logprob, dtype=np.float32),
            values=np.zeros(count, dtype=np.float32),
        )

    def prepare(self, tensors: Mapping[str, NDArray[Any]]) -> object:
        """Accept any tensors."""
        return tensors

    def adopt(self, prepared: object) -> None:
        """Do nothing: weights are not used."""


class SimulatedEnvironment:
    """Environment with configurable step durations, episode lengths and failures."""

    def __init__(
        self,
        *,
        step_seconds: float = 0.0,
        spread: float = 0.3,
        episode_length: int = 200,
        failure_rate: float = 0.0,
    ) -> None:
        """Set up the environment.

        Args:
            step_seconds: Mean duration of a step.
            spread: Standard deviation of durations and lengths, as a fraction of their means.
            episode_length: Mean number of env steps of an episode.
            failure_rate: Fraction of steps that fail.
        """
        from gymnasium import spaces

        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._step_seconds = step_seconds
        self._spread = spread
        self._episode_length = episode_length
        self._failure_rate = failure_rate
        self._random = np.random.default_rng(0)
        self._left = 0

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        length = self._random.normal(self._episode_length, self._episode_length * self._spread)
        self._left = max(1, round(length))
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:  # noqa: ARG002
        """Return a reward of 1 after the simulated duration.

        Raises:
            SimulatedFailure: With probability `failure_rate`.
        """
        _simulate_duration(self._random, self._step_seconds, self._spread)
        if self._random.random() < self._failure_rate:
            raise SimulatedFailure("the simulated environment failed")
        self._left -= 1
        return self._obs(), 1.0, self._left <= 0, False, {}

    def close(self) -> None:
        """Do nothing: there are no resources."""

    def _obs(self) -> NDArray[np.float32]:
        return self._random.standard_normal(4, dtype=np.float32)


def _simulate_duration(rng: np.random.Generator, mean_seconds: float, spread: float) -> None:
    if mean_seconds:
        time.sleep(max(0.0, rng.normal(mean_seconds, mean_seconds * spread)))


def _make(name: str, kwargs: Mapping[str, Any]) -> Environment:  # noqa: ARG001 factory signature
    return SimulatedEnvironment(**kwargs)


register("simulated", _make)
