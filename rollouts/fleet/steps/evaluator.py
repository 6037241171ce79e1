"""Scheduled evaluations of a step worker, in a loop beside its rollout loop."""

import threading
import time
from typing import Final

from rolldeck.wire import EpisodeWindow, InfoWindow
from rollouts.fleet.policies.policy_protocol import Policy
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import WorkerSettings, derive_seed
from rollouts.fleet.steps.evaluation_round import EvaluationRound, Weights
from rollouts.fleet.steps.step_worker import PolicyFactory
from rollouts.fleet.weights.loader import WeightsLoader
from rollouts.fleet.weights.records import Version
from rollouts.fleet.worker.episodes import EpisodeStatistics
from rollouts.fleet.worker.info_totals import InfoTotals
from rollouts.fleet.worker.messages import IDLE
from rollouts.fleet.worker.node_cleanup import mark_of
from rollouts.lessons.rules.evaluation import is_due

POLL_SECONDS: Final = 0.5
EVALUATING_WORKER: Final = 0
"""Index of the worker that evaluates."""


class Evaluator:
    """Evaluates the weights that the worker uses, every `evaluation.every_train_steps` steps.

    The first version of an epoch is evaluated as a baseline. Its episodes become episode windows of
    mode ``eval``; none of their steps becomes part of a fragment. The evaluation has its own env
    process and policy, so the rollout loop never waits for it.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        weights: WeightsLoader,
        events: EventLog,
        policy_factory: PolicyFactory | None = None,
    ) -> None:
        """Prepare the evaluator.

        Args:
            settings: Settings of the worker.
            weights: Source of the versions.
            events: Receives failed evaluations.
            policy_factory: Creates another policy than the configured one.
        """
        self._settings = settings
        self._config = settings.fleet.config
        self._loader = weights
        self._events = events
        self._factory = policy_factory or self._configured
        self._policy: Policy | None = None
        self._evaluated: Version | None = None
        """Version of the last round."""
        self._lock = threading.Lock()
        self._windows: list[EpisodeWindow] = []
        self._info = InfoTotals()
        self._closed = threading.Event()
        self.command = IDLE
        """Newest command of the worker; rounds start only while it is to run."""

    @staticmethod
    def is_needed(settings: WorkerSettings) -> bool:
        """Return whether this worker evaluates."""
        every = settings.fleet.config.evaluation.every_train_steps
        return every > 0 and settings.index == EVALUATING_WORKER

    def turn(self) -> None:
        """Run an evaluation if one is due; otherwise wait."""
        record, active = self._loader.record, self._loader.active
        if record is None or record.version != active or not self._is_due(record.version):
            self._closed.wait(POLL_SECONDS)
            return
        self._evaluated = record.version
        began = time.monotonic()
        evaluation = EvaluationRound(
            self._config,
            Weights(record.step, record.tensors),
            make_policy=self._policy_for,
            is_stopped=self._closed.is_set,
            mark=str(mark_of(self._settings)),
        )
        try:
            episodes = evaluation.run()
        except Exception as failure:  # noqa: BLE001 policies may raise anything
            self._report_failure(record.version, failure)
            return
        statistics = EpisodeStatistics(worker=self._settings.index, now=began)
        for episode in episodes:
            statistics.add(episode)
        with self._lock:
            self._windows += statistics.pop(time.monotonic())
            self._info.merge(evaluation.info.pop())

    def pop_episodes(self) -> list[EpisodeWindow]:
        """Return the results of the evaluations that ended since the last call."""
        with self._lock:
            windows, self._windows = self._windows, []
        return windows

    def pop_info(self) -> InfoWindow:
        """Return the values of `info` in these evaluations."""
        with self._lock:
            return self._info.pop()

    def close(self) -> None:
        """End the current turn; an unfinished evaluation has no result."""
        self._closed.set()

    def _is_due(self, version: Version) -> bool:
        return (
            self.command.desired == "running"
            and version[0] == self.command.epoch
            and is_due(
                last=self._evaluated, now=version, every=self._config.evaluation.every_train_steps
            )
        )

    def _policy_for(self, observation: Space, action: Space) -> Policy:
        self._policy = self._policy or self._factory(observation, action)
        return self._policy

    def _configured(self, observation: Space, action: Space) -> Policy:
        from rollouts.fleet.policies.factory import make_policy

        policy = make_policy(
            self._config.policy,
            observation,
            action,
            seed=derive_seed(self._config.seed, "evaluation", "policy"),
            device=self._config.fleet.policy_device,
        )
        policy.is_deterministic = self._config.evaluation.deterministic
        return policy

    def _report_failure(self, version: Version, failure: Exception) -> None:
        if self._closed.is_set():
            return
        reason = str(failure) or type(failure).__name__
        self._events.add(
            "evaluation_failed",
            f"The evaluation of version {version[1]} failed: {reason}",
            level="error",
            version=list(version),
            reason=reason[-2000:],
        )
