"""Evaluations of a step policy in environments of their own, scheduled beside the rollout loop."""

import select
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, Final, NoReturn

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from rolldeck.wire import EpisodeWindow, InfoWindow
from rollouts.fleet.policies.policy_protocol import Policy, PolicyDoesNotFit, for_environment
from rollouts.fleet.policies.spaces import Space, invalid_actions
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import WorkerSettings, derive_seed
from rollouts.fleet.process.spans import CallTimer
from rollouts.fleet.steps.env_messages import (
    AnyMessage,
    Began,
    EnvCrashed,
    InfoReport,
    Ready,
    Stepped,
)
from rollouts.fleet.steps.env_worker import EnvWorker, EnvWorkerDied
from rollouts.fleet.steps.step_worker import PolicyFactory
from rollouts.fleet.weights.loader import WeightsLoader
from rollouts.fleet.weights.records import Version, WeightsRecord
from rollouts.fleet.worker.episodes import Episode, EpisodeStatistics, EpisodeTallies
from rollouts.fleet.worker.info_values import InfoTotals
from rollouts.fleet.worker.messages import IDLE
from rollouts.fleet.worker.node_cleanup import mark_of
from rollouts.lessons.rules.evaluation import is_due
from runs.config.rules.run_config import RunConfig

_WAIT_SECONDS: Final = 0.2
"""Maximum delay until a round ends after `is_stopped` has become true."""
POLL_SECONDS: Final = 0.5
OVERDUE_SECONDS: Final = 5.0
"""Time after its limit in which a round has to end; then it counts as hung."""
CLOSE_SECONDS: Final = 2.0
"""Time in which a round has to end when the worker ends."""
EVALUATING_WORKER: Final = 0
"""Index of the worker that evaluates."""


class EvaluationFailed(RuntimeError):
    """The evaluation has no result; the text is the reason."""


class EvaluationRound:
    """Evaluates one version of the weights over `config.evaluation.episodes` episodes.

    One env process steps R rows in lockstep. Each row ends a fixed number of episodes, because the
    first N episodes to end would be the short ones. Seeds depend on the run's seed only: all rounds
    of a run begin with the same episodes.
    """

    def __init__(
        self,
        config: RunConfig,
        weights: WeightsRecord,
        *,
        make_policy: Callable[[Space, Space], Policy],
        is_stopped: Callable[[], bool] = lambda: False,
        mark: str = "",
    ) -> None:
        """Prepare the round without starting its process.

        The round replaces the weights of the policy, and ends without a result once `is_stopped` is
        true.
        """
        self._limits = config.evaluation
        self._weights = weights
        self._make_policy = make_policy
        self._is_stopped = is_stopped
        rows = min(self._limits.envs, self._limits.episodes)
        self._process = EnvWorker(
            config.environment,
            slots=range(rows),
            base_seed=derive_seed(config.seed, "evaluation"),
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
        self.calling_policy = CallTimer()
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
                if poll.poll(_WAIT_SECONDS * 1000):
                    for message in self._process.receive():
                        self._handle(message)
                self._act()
        except (EnvWorkerDied, PolicyDoesNotFit) as failure:
            raise EvaluationFailed(str(failure)) from failure
        finally:
            self._process.close()
        return self._episodes

    def abandon(self) -> None:
        """End the env process of a round that does not return; another thread calls this."""
        self._process.kill()

    def _handle(self, message: AnyMessage) -> None:
        if isinstance(message, EnvCrashed):
            self._fail(message)
        if isinstance(message, Ready):
            rows, observation = len(self._left), message.observation
            self._obs = np.zeros((rows, *observation.shape), observation.array_dtype)
            with self.calling_policy:
                policy = self._make_policy(observation, message.action)
                policy.adopt(policy.prepare(self._weights.tensors))
                state, beginning = policy.initial_state(rows), policy.initial_state(1)
            self._policy, self._action_space = policy, message.action
            self._state = {name: np.array(values) for name, values in state.items()}
            self._beginning = {name: values[0] for name, values in beginning.items()}
        elif isinstance(message, Began):
            self._obs[message.row] = self._process.observation(message.row)
            self._tallies.begin(message.row)
            self._is_waiting[message.row] = True
        elif isinstance(message, Stepped):
            stepped = message.rows
            self._tallies.add(stepped, message.reward)
            self._obs[stepped] = message.obs
            self._first[stepped] = message.terminated | message.truncated
            self._is_waiting[stepped] = True
            for at, _ in message.finals:
                row = int(stepped[at])
                is_terminated = bool(message.terminated[at])
                ended = self._tallies.end(row, "terminated" if is_terminated else "truncated")
                self._episodes.append(ended)
                self._tallies.begin(row)
                self._left[row] -= 1
            for crash in message.crashed:
                if self._left[crash.row]:
                    self._fail(crash)
        elif isinstance(message, InfoReport):
            sums = [replace(one, name=f"eval/{one.name}") for one in message.window.sums]
            self.info.merge(replace(message.window, sums=sums))

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
        with self.calling_policy:
            decision = policy.act(self._obs[rows], before, first)
        for text in invalid_actions(space, decision.actions).values():
            raise EvaluationFailed(f"the policy returned an invalid value: {text}")
        for name, values in decision.state.items():
            self._state[name][rows] = values
        self._tallies.acted(rows, self._weights.step)
        self._is_waiting[rows] = False
        self._process.step(rows, for_environment(decision.actions, space))


def evaluation_policy(
    config: RunConfig, observation: Space, action: Space, *, device: str
) -> Policy:
    """Return the configured policy of a run for its evaluations."""
    # Imported here, because commands need no torch for --help.
    from rollouts.fleet.policies.factory import make_policy

    seed = derive_seed(config.seed, "evaluation", "policy")
    policy = make_policy(config.policy, observation, action, seed=seed, device=device)
    policy.is_deterministic = config.evaluation.deterministic
    return policy


class Evaluator:
    """Evaluates the weights that the worker uses, every `evaluation.every_train_steps` steps.

    The first version of an epoch is evaluated as a baseline. Its episodes become episode windows of
    mode ``eval``; none of their steps becomes part of a fragment. The evaluation has its own env
    process, policy and thread, so the rollout loop never waits for it. While a policy does not
    return from an evaluation, later ones fail at once.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        weights: WeightsLoader,
        events: EventLog,
        policy_factory: PolicyFactory | None = None,
    ) -> None:
        """Prepare the evaluator; `policy_factory` creates another policy than that of the run."""
        self._settings = settings
        self._config = settings.fleet.config
        self._loader = weights
        self._events = events
        self._factory = policy_factory or partial(
            evaluation_policy, self._config, device=self._config.fleet.policy_device
        )
        self._policy: Policy | None = None
        self._evaluated: Version | None = None
        """Version of the last round."""
        self._running: Version | None = None
        self._unreported: Version | None = None
        """Version whose windows are not popped yet."""
        self._hung: Future[list[Episode]] | None = None
        """A round that did not end in time; its thread may still run."""
        self._lock = threading.Lock()
        self._windows: list[EpisodeWindow] = []
        self._info = InfoTotals()
        self._closed = threading.Event()
        self.command = IDLE
        """Newest command of the worker; rounds start only while it is to run."""

    @staticmethod
    def is_needed(settings: WorkerSettings) -> bool:
        every = settings.fleet.config.evaluation.every_train_steps
        return every > 0 and settings.index == EVALUATING_WORKER

    @property
    def pending(self) -> Version | None:
        """Version of the evaluation without a reported result or failure, if there is one."""
        return self._running or self._unreported

    def turn(self) -> None:
        """Run an evaluation if one is due; otherwise wait."""
        record, command = self._loader.record, self.command
        every = self._config.evaluation.every_train_steps
        if (
            record is None
            or record.version != self._loader.active
            or command.desired != "running"
            or record.epoch != command.epoch
            or not is_due(last=self._evaluated, now=record.version, every=every)
        ):
            self._closed.wait(POLL_SECONDS)
            return
        with self._lock:
            if self._closed.is_set():
                return
            self._evaluated = self._running = record.version
        if self._hung is not None and not self._hung.done():
            self._fail(record.version, "the policy has not returned from an earlier evaluation")
            return
        self._hung = None
        evaluation = EvaluationRound(
            self._config,
            record,
            make_policy=self._policy_for,
            is_stopped=self._closed.is_set,
            mark=str(mark_of(self._settings)),
        )
        began = time.monotonic()
        try:
            episodes = self._result(evaluation)
        except Exception as failure:  # noqa: BLE001 policies may raise anything
            self._fail(record.version, str(failure) or type(failure).__name__)
            return
        statistics = EpisodeStatistics(worker=self._settings.index, now=began)
        for episode in episodes:
            statistics.add(episode)
        with self._lock:
            if self._running == record.version:
                self._running, self._unreported = None, record.version
                self._windows += statistics.pop(time.monotonic())
                self._info.merge(evaluation.info.pop())

    def pop_episodes(self) -> list[EpisodeWindow]:
        """Return the results of the evaluations that ended since the last call."""
        with self._lock:
            windows, self._windows = self._windows, []
            self._unreported = None
        return windows

    def pop_info(self) -> InfoWindow:
        with self._lock:
            return self._info.pop()

    def close(self) -> None:
        """End the current turn; an unfinished evaluation fails."""
        self._closed.set()
        if (version := self._running) is not None:
            self._fail(version, f"worker {self._settings.index} ended during the evaluation")

    def _result(self, evaluation: EvaluationRound) -> list[Episode]:
        """Run a round in a thread of its own, because its policy may never return.

        Raises:
            EvaluationFailed: If it has no result, or does not end in time.
            Exception: If the policy raises it.
        """
        outcome: Future[list[Episode]] = Future()

        def work() -> None:
            try:
                outcome.set_result(evaluation.run())
            except BaseException as failure:  # noqa: BLE001 the caller reports it
                outcome.set_exception(failure)

        name = f"{self._settings.name} evaluation round"
        threading.Thread(target=work, name=name, daemon=True).start()
        limit = self._config.evaluation.timeout_seconds
        deadline = time.monotonic() + limit + OVERDUE_SECONDS
        while not outcome.done() and not self._closed.is_set() and time.monotonic() < deadline:
            wait([outcome], timeout=POLL_SECONDS)
        if self._closed.is_set():
            wait([outcome], timeout=CLOSE_SECONDS)
        if outcome.done():
            return outcome.result()
        self._hung, self._policy = outcome, None
        seconds = evaluation.calling_policy.seconds(time.monotonic())
        evaluation.abandon()
        what = f"the policy did not return for {seconds:.0f} s" if seconds else "it did not end"
        raise EvaluationFailed(f"{what}; the limit is {limit:g} s (evaluation.timeout_seconds)")

    def _policy_for(self, observation: Space, action: Space) -> Policy:
        if self._policy is None:
            self._policy = self._factory(observation, action)
        return self._policy

    def _fail(self, version: Version, reason: str) -> None:
        """Report the failure of an evaluation, unless it is reported already."""
        with self._lock:
            if self._running != version:
                return
            self._running = None
        self._events.add(
            "evaluation_failed",
            f"The evaluation of version {version[1]} failed: {reason}",
            level="warning" if self._closed.is_set() else "error",
            version=list(version),
            reason=reason[-2000:],
        )
