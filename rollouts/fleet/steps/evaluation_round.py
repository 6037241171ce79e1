"""One evaluation of a step policy: episodes in environments of their own."""

import select
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from rollouts.fleet.policies.policy_protocol import Policy, PolicyDoesNotFit, for_environment
from rollouts.fleet.policies.spaces import Space, invalid_actions
from rollouts.fleet.process.settings import derive_seed
from rollouts.fleet.steps.env_messages import (
    AnyMessage,
    Began,
    EnvCrashed,
    InfoReport,
    Ready,
    Stepped,
)
from rollouts.fleet.steps.env_worker import EnvWorker, EnvWorkerDied
from rollouts.fleet.steps.episode_tallies import EpisodeTallies
from rollouts.fleet.worker.episodes import Episode
from rollouts.fleet.worker.info_totals import InfoTotals
from runs.config.rules.run_config import RunConfig

POLL_SECONDS: Final = 0.2
"""Maximum delay until a round ends after `is_stopped` has become true."""


class EvaluationFailed(RuntimeError):
    """The evaluation has no result; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Weights:
    """One version of the weights."""

    step: int
    """Step of the version."""
    tensors: Mapping[str, NDArray[Any]]


class EvaluationRound:
    """Evaluates one version of the weights over `config.evaluation.episodes` episodes.

    One env process steps R rows in lockstep. Each row ends a fixed number of episodes, because the
    first N episodes to end would be the short ones. Seeds depend on the run's seed only: all rounds
    of a run begin with the same episodes.
    """

    def __init__(
        self,
        config: RunConfig,
        weights: Weights,
        *,
        make_policy: Callable[[Space, Space], Policy],
        is_stopped: Callable[[], bool] = lambda: False,
        mark: str = "",
    ) -> None:
        """Prepare the round without starting its process.

        Args:
            config: Configuration of the run.
            weights: Evaluated version.
            make_policy: Returns the policy for an observation and an action space. The round
                replaces its weights.
            is_stopped: Returns whether the round must end without a result.
            mark: Mark of the env process; see `EnvWorker`.
        """
        self._limits = config.evaluation
        self._weights = weights
        self._make_policy = make_policy
        self._is_stopped = is_stopped
        rows = min(self._limits.envs, self._limits.episodes)
        self._process = EnvWorker(
            spec=config.environment.spec,
            kwargs=config.environment.kwargs,
            slots=range(rows),
            base_seed=derive_seed(config.seed, "evaluation"),
            wrappers=config.environment.wrappers,
            callbacks=config.environment.callbacks,
            mark=mark,
            is_info_immediate=True,
        )
        self._tallies = EpisodeTallies(
            slots=rows,
            environment=config.environment.spec,
            discount=config.fleet.discount,
            mode="eval",
        )
        share, rest = divmod(self._limits.episodes, rows)
        self._left = np.full(rows, share) + (np.arange(rows) < rest)
        """Episodes that each row still has to end, ``[R]``."""
        self._is_waiting = np.zeros(rows, dtype=np.bool_)
        """Which rows have an observation to act on, ``[R]``."""
        self._first = np.ones(rows, dtype=np.bool_)
        self._obs: NDArray[Any] = np.empty(0)
        self._policy: Policy | None = None
        self._policy_since: float | None = None
        """Time of the unfinished call of the policy."""
        self._action_space: Space | None = None
        self._state: dict[str, NDArray[Any]] = {}
        self._beginning: dict[str, NDArray[Any]] = {}
        self._episodes: list[Episode] = []
        self.info = InfoTotals()
        """Values of `info`; their names begin with ``eval/``."""

    def run(self) -> list[Episode]:
        """Return the finished episodes.

        Raises:
            EvaluationFailed: If an environment or its process fails, the policy does not fit, or
                the time limit is exceeded, or the round is stopped.
        """
        deadline = time.monotonic() + self._limits.timeout_seconds
        try:
            self._process.start()
            while self._left.any():
                self._receive(deadline)
                self._act()
        except (EnvWorkerDied, PolicyDoesNotFit) as failure:
            raise EvaluationFailed(str(failure)) from failure
        finally:
            self._process.close()
        return self._episodes

    def policy_seconds(self, now: float) -> float:
        """Return for how long a call of the policy has blocked the round."""
        since = self._policy_since
        return 0.0 if since is None else now - since

    def abandon(self) -> None:
        """End the env process of a round that does not return; another thread calls this."""
        self._process.kill()

    @contextmanager
    def _calling_policy(self) -> Iterator[None]:
        self._policy_since = time.monotonic()
        try:
            yield
        finally:
            self._policy_since = None

    def _receive(self, deadline: float) -> None:
        if self._is_stopped():
            raise EvaluationFailed("stopped")
        if time.monotonic() > deadline:
            raise EvaluationFailed(
                f"{len(self._episodes)} of {self._limits.episodes} episodes ended within "
                f"{self._limits.timeout_seconds:g} s (evaluation.timeout_seconds)"
            )
        descriptor = self._process.descriptor
        poll = select.poll()
        poll.register(-1 if descriptor is None else descriptor, select.POLLIN)
        if poll.poll(POLL_SECONDS * 1000):
            for message in self._process.receive():
                self._handle(message)

    def _handle(self, message: AnyMessage) -> None:
        if isinstance(message, EnvCrashed):
            self._fail(message)
        if isinstance(message, Ready):
            self._prepare(message)
        elif isinstance(message, Began):
            self._obs[message.row] = self._process.observation(message.row)
            self._tallies.begin(message.row)
            self._is_waiting[message.row] = True
        elif isinstance(message, Stepped):
            self._store(message)
        elif isinstance(message, InfoReport):
            sums = [replace(one, name=f"eval/{one.name}") for one in message.window.sums]
            self.info.merge(replace(message.window, sums=sums))

    def _prepare(self, ready: Ready) -> None:
        rows = len(self._left)
        self._obs = np.zeros((rows, *ready.observation.shape), ready.observation.array_dtype)
        with self._calling_policy():
            policy = self._make_policy(ready.observation, ready.action)
            policy.adopt(policy.prepare(self._weights.tensors))
            state, beginning = policy.initial_state(rows), policy.initial_state(1)
        self._policy, self._action_space = policy, ready.action
        self._state = {name: np.array(one) for name, one in state.items()}
        self._beginning = {name: one[0] for name, one in beginning.items()}

    def _store(self, came: Stepped) -> None:
        rows = came.rows
        self._tallies.add(rows, came.reward)
        self._obs[rows] = came.obs
        self._first[rows] = came.terminated | came.truncated
        self._is_waiting[rows] = True
        for at, _ in came.finals:
            row = int(rows[at])
            ended = self._tallies.end(row, "terminated" if came.terminated[at] else "truncated")
            self._episodes.append(ended)
            self._tallies.begin(row)
            self._left[row] -= 1
        for crash in came.crashed:
            if self._left[crash.row]:
                self._fail(crash)

    def _fail(self, crash: EnvCrashed) -> NoReturn:
        last_line = crash.error.strip().rpartition("\n")[2]
        what = "returned an invalid value:" if crash.is_invalid_value else "raised"
        raise EvaluationFailed(f"an environment {what} {last_line}")

    def _act(self) -> None:
        """Step all rows with episodes left, once each of them has an observation."""
        rows = np.flatnonzero(self._left)
        policy, space = self._policy, self._action_space
        if policy is None or space is None or not len(rows) or not self._is_waiting[rows].all():
            return
        first = self._first[rows]
        before = {name: values[rows] for name, values in self._state.items()}
        for name, values in before.items():
            values[first] = self._beginning[name]
        with self._calling_policy():
            decision = policy.act(self._obs[rows], before, first)
        for text in invalid_actions(space, decision.actions).values():
            raise EvaluationFailed(f"the policy returned an invalid value: {text}")
        for name, values in decision.state.items():
            self._state[name][rows] = values
        self._tallies.acted(rows, self._weights.step)
        self._is_waiting[rows] = False
        self._process.step(rows, for_environment(decision.actions, space))
