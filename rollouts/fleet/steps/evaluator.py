"""Scheduled evaluations of a step worker, in a loop beside its rollout loop."""

import threading
import time
from concurrent.futures import Future, wait
from typing import Final

from rolldeck.wire import EpisodeWindow, InfoWindow
from rollouts.fleet.policies.policy_protocol import Policy
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import WorkerSettings, derive_seed
from rollouts.fleet.steps.evaluation_round import EvaluationFailed, EvaluationRound, Weights
from rollouts.fleet.steps.step_worker import PolicyFactory
from rollouts.fleet.weights.loader import WeightsLoader
from rollouts.fleet.weights.records import Version
from rollouts.fleet.worker.episodes import Episode, EpisodeStatistics
from rollouts.fleet.worker.info_totals import InfoTotals
from rollouts.fleet.worker.messages import IDLE
from rollouts.fleet.worker.node_cleanup import mark_of
from rollouts.lessons.rules.evaluation import is_due

POLL_SECONDS: Final = 0.5
OVERDUE_SECONDS: Final = 5.0
"""Time after its limit in which a round has to end; then it counts as hung."""
CLOSE_SECONDS: Final = 2.0
"""Time in which a round has to end when the worker ends."""
EVALUATING_WORKER: Final = 0
"""Index of the worker that evaluates."""


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
        """Return whether this worker evaluates."""
        every = settings.fleet.config.evaluation.every_train_steps
        return every > 0 and settings.index == EVALUATING_WORKER

    @property
    def pending(self) -> Version | None:
        """Version of the evaluation without a reported result or failure, if there is one."""
        return self._running or self._unreported

    def turn(self) -> None:
        """Run an evaluation if one is due; otherwise wait."""
        record, active = self._loader.record, self._loader.active
        if record is None or record.version != active or not self._is_due(record.version):
            self._closed.wait(POLL_SECONDS)
            return
        if not self._begin(record.version):
            return
        evaluation = EvaluationRound(
            self._config,
            Weights(record.step, record.tensors),
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
        """Return the values of `info` in these evaluations."""
        with self._lock:
            return self._info.pop()

    def close(self) -> None:
        """End the current turn; an unfinished evaluation fails."""
        self._closed.set()
        if (version := self._running) is not None:
            self._fail(version, f"worker {self._settings.index} ended during the evaluation")

    def _begin(self, version: Version) -> bool:
        """Begin the evaluation of a version; return False if it cannot run."""
        with self._lock:
            if self._closed.is_set():
                return False
            self._evaluated = self._running = version
        if self._hung is None or self._hung.done():
            self._hung = None
            return True
        self._fail(version, "the policy has not returned from an earlier evaluation")
        return False

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
        seconds = evaluation.policy_seconds(time.monotonic())
        evaluation.abandon()
        what = f"the policy did not return for {seconds:.0f} s" if seconds else "it did not end"
        raise EvaluationFailed(f"{what}; the limit is {limit:g} s (evaluation.timeout_seconds)")

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
