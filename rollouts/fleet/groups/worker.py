"""Sampling and evaluation of lessons, without I/O."""

import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, get_args

from msgspec.structs import replace as struct_replace

from rolldeck.lessons import EvalType, LessonOutcome
from rollouts.fleet.engine.engine import TokenUnknown, Version
from rollouts.fleet.engine.tokenizers import Tokenizer
from rollouts.fleet.groups.arguments import NUMBERS_END, SEEDS_END, count, one_of, whole
from rollouts.fleet.groups.batches import (
    Draw,
    Mode,
    RolloutBatch,
    RolloutGroup,
    RolloutMetadata,
    checked,
    numbered,
)
from rollouts.fleet.groups.curriculum import OutcomeReceiver
from rollouts.fleet.groups.environment_loader import load_environment
from rollouts.fleet.groups.environments import GroupEnvironment, RolloutRequest, Sampled
from rollouts.fleet.groups.errors import Fault, FaultLog, LessonFailed, SamplingStopped
from rollouts.fleet.groups.outcomes import (
    ENVIRONMENT,
    Lease,
    environment_metrics,
    figures_of,
    outcome_of,
)
from rollouts.fleet.groups.policy_context import PolicyContext
from rollouts.fleet.groups.short_groups import Losses, settled
from rollouts.fleet.inference.contract import InferenceFailed, InferenceServer
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import derive_seed
from rollouts.lessons.rules.evaluation import EvaluationFigures
from rollouts.lessons.rules.evaluation import figures_of as evaluation_figures
from runs.config.rules.language_config import LanguageConfig

Metrics = dict[str, float]
EMPTY: Final[Mapping[str, list[int]]] = MappingProxyType({})


class GroupRolloutWorker:
    """Worker that samples groups of rollouts; the caller stores, sends and logs them.

    All variable inputs are arguments, so threads may share a worker. Any worker gives the same
    problems and answers for the same :class:`Draw`.
    """

    def __init__(
        self,
        language: LanguageConfig,
        *,
        server: InferenceServer,
        tokenizer: Tokenizer,
        context_tokens: int,
        curriculum: OutcomeReceiver,
        problem_seed: int = 0,
        events: EventLog | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Prepare the worker; environments are loaded on first use.

        The worker takes ownership of `server`. A prompt and its continuation have at most
        `context_tokens` together. Number, mode and `problem_seed` determine a problem.
        """
        self._language = language
        self._server = server
        self._tokenizer = tokenizer
        self._context_tokens = context_tokens
        self._curriculum = curriculum
        self._problem_seed = problem_seed
        self._faults = FaultLog(events or EventLog())
        self._now = now
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._environments: dict[str, GroupEnvironment] = {}

    def wait_until_ready(self, *, timeout_seconds: float) -> bool:
        """Wait until the server can generate; return False on timeout or shutdown."""
        return self._server.wait_until_ready(timeout_seconds=timeout_seconds, stop=self._stop)

    def load_environment(self, lesson_id: str) -> GroupEnvironment:
        """Return the lesson's environment, built on the first call.

        Raises:
            LessonFailed: If the lesson does not exist or cannot be built.
        """
        with self._lock:
            if lesson_id not in self._environments:
                lesson = self._language.lessons.get(lesson_id)
                if lesson is None:
                    known = ", ".join(self._language.lessons)
                    raise LessonFailed(
                        "lesson_unknown", f"lesson {lesson_id!r} does not exist; known: {known}"
                    )
                self._environments[lesson_id] = load_environment(lesson.spec, lesson.kwargs)
            return self._environments[lesson_id]

    def sample_batch(
        self,
        lesson_id: str,
        *,
        n_examples: int,
        n_generations: int,
        mode: Mode,
        rng: Draw,
        policy_version: Version,
        worker_id: str,
        on_losses: Callable[[Losses], None] = lambda _: None,
    ) -> tuple[RolloutBatch | None, Metrics | None]:
        """Return groups with metadata, and their figures; two Nones if no group is valid.

        Groups of which rollouts fail are dropped, shrunken or refilled, by the rule of the lesson;
        `on_losses` receives the lost rollouts.

        `policy_version` is the version in use at the time of the call. A rollout carries the oldest
        version that sampled any of its tokens, which is never older. Evaluation problems have their
        own sampling parameters.

        Raises:
            InvalidArgument: If an argument is out of its range.
            LessonFailed: If the environment raises; other lessons are unaffected.
            SamplingStopped: If the worker was shut down.
            InferenceFailed: If the server can no longer generate.
        """
        _check_draw(n_examples, n_generations, rng)
        one_of("mode", mode, get_args(Mode))
        began = time.monotonic()
        request = RolloutRequest(
            numbers=range(rng.first_example, rng.first_example + n_examples),
            generations=n_generations,
            mode=mode,
            problem_seed=self._problem_seed,
            seed=derive_seed(rng.seed, lesson_id, mode),
        )
        sampled = self._sample(lesson_id, request)
        groups, losses = settled(
            sampled.groups,
            rule=self._language.short_group_rule(lesson_id),
            request=request,
            ask=lambda again: self._sample(lesson_id, again),
        )
        for fault in sampled.faults:
            losses.lose(fault.number, fault.kind)
        on_losses(losses)
        own_metrics, problems = environment_metrics(sampled.metrics)
        sampled.notices.extend(Fault("metric_invalid", text) for text in problems)
        for fault in [*sampled.notices, *sampled.faults, *losses.faults]:
            self._faults.report(lesson_id, fault)
        if not groups:
            return None, None
        metadata = RolloutMetadata(
            lesson=lesson_id,
            worker_id=worker_id,
            mode=mode,
            policy_version=policy_version,
            sampled_at=self._now(),
        )
        batch = RolloutBatch(
            groups=[
                self._finished(lesson_id, group, metadata)
                for group in numbered(groups, request.numbers)
            ],
            generations=n_generations,
            metadata=metadata,
            draw=rng,
            seconds=time.monotonic() - began,
        )
        metrics = figures_of(batch) | {
            f"{ENVIRONMENT}{name}": value for name, value in own_metrics.items()
        }
        return batch, metrics | {"faults": float(len(sampled.faults) + len(losses.faults))}

    def evaluate_lesson(
        self,
        lesson_id: str,
        *,
        n_examples: int,
        eval_type: EvalType,
        rng: Draw,
        policy_version: Version,
        worker_id: str,
        n_generations: int = 0,
        lease: Lease | None = None,
    ) -> tuple[EvaluationFigures | None, RolloutBatch | None]:
        """Evaluate a lesson and record the outcome; return the figures and rollouts, if any.

        Only the type `eval` affects the curriculum. Answers derive from `rng`, lesson and mode.
        With 0 `n_generations`, the run's evaluation settings apply.

        Raises:
            InvalidArgument: If an argument is out of its range.
            SamplingStopped: If the worker was shut down.
            InferenceFailed: If the server can no longer generate.
        """
        generations = n_generations or self._language.evaluation.generations
        _check_draw(n_examples, generations, rng)
        one_of("eval_type", eval_type, get_args(EvalType))
        error, stops, metrics, errors = "", False, None, dict[str, str]()
        unavailable: InferenceFailed | None = None
        try:
            batch, metrics = self.sample_batch(
                lesson_id,
                n_examples=n_examples,
                n_generations=generations,
                mode="eval",
                rng=rng,
                policy_version=policy_version,
                worker_id=worker_id,
            )
        except LessonFailed as failure:
            self._faults.report(lesson_id, Fault(failure.kind, str(failure)), level="error")
            batch, error, stops = None, str(failure), failure.stops
            errors[failure.kind] = error
        except InferenceFailed as failure:
            batch, unavailable = None, failure
            errors["inference_failed"] = str(failure)
        outcome = outcome_of(
            batch,
            lesson=lesson_id,
            mode=eval_type,
            worker_id=worker_id,
            policy_version=batch.policy_version if batch else policy_version,
            draw=rng,
            generations=generations,
            lease=lease,
            error=error or ("" if batch or unavailable else "no valid rollouts"),
            stops=stops,
            metrics=metrics,
            errors=errors,
        )
        self._record(lesson_id, outcome)
        if unavailable is not None:
            raise unavailable
        if not outcome.rewards:
            return None, batch
        figures = evaluation_figures(
            outcome.rewards,
            outcome.successes,
            generations=outcome.generations,
            tokens=outcome.tokens,
            truncated=outcome.truncated,
            seconds=outcome.seconds,
        )
        return figures, batch

    def update_training_stats(
        self,
        lesson_id: str,
        batch: RolloutBatch,
        metrics: Metrics | None = None,
        losses: Losses | None = None,
        lost: Mapping[str, list[int]] = EMPTY,
    ) -> list[str]:
        """Record the outcome of training rollouts; return which lessons moved, and why.

        Returns once the curriculum has stored the outcome. The metrics of the environment become
        series of the run. `lost` has the numbers of problems without a group to train on, by
        reason.
        """
        return self._record(
            lesson_id,
            outcome_of(
                batch,
                lesson=lesson_id,
                mode="train",
                worker_id=batch.metadata.worker_id,
                policy_version=batch.policy_version,
                draw=batch.draw,
                generations=batch.generations,
                metrics=metrics,
                losses=losses,
                lost=lost,
                pass_size=getattr(self.load_environment(lesson_id), "pass_size", 0),
            ),
        )

    def report_failure(
        self,
        lesson_id: str,
        failure: LessonFailed | InferenceFailed | None,
        *,
        draw: Draw,
        policy_version: Version,
        worker_id: str,
        losses: Losses | None = None,
        lost: Mapping[str, list[int]] = EMPTY,
    ) -> None:
        """Record a task without a valid group; only a failure of the lesson is an error of it.

        A failure stops the lesson if its setting demands it.
        """
        errors = dict[str, str]()
        if isinstance(failure, InferenceFailed):
            errors["inference_failed"], failure = str(failure), None
        elif failure is not None:
            errors[failure.kind] = str(failure)
        if failure and losses is None:  # Otherwise the failures of its rollouts are reported.
            self._faults.report(lesson_id, Fault(failure.kind, str(failure)), level="error")
        self._record(
            lesson_id,
            outcome_of(
                None,
                lesson=lesson_id,
                mode="train",
                worker_id=worker_id,
                policy_version=policy_version,
                draw=draw,
                generations=self._language.group_size_of(lesson_id),
                error=str(failure or ""),
                stops=bool(failure and failure.stops),
                losses=losses,
                lost=lost,
                errors=errors,
            ),
        )

    def shutdown(self) -> None:
        """Stop sampling and evaluation within two seconds, and close the inference server."""
        self._stop.set()
        for environment in list(self._environments.values()):
            getattr(environment, "close", lambda: None)()
        self._server.close()

    def _record(self, lesson_id: str, outcome: LessonOutcome) -> list[str]:
        return self._curriculum.record(lesson_id, outcome).changes

    def _sample(self, lesson_id: str, request: RolloutRequest) -> Sampled:
        """Return the valid groups of the lesson's environment, and faults for the others."""
        environment = self.load_environment(lesson_id)
        sampling = self._language.lessons[lesson_id].sampling
        if request.mode == "eval":
            temperature = self._language.evaluation.temperature
            sampling = struct_replace(sampling, temperature=temperature, top_p=1.0, top_k=0)
        policy = PolicyContext(
            server=self._server,
            tokenizer=self._tokenizer,
            sampling=sampling,
            context_tokens=self._context_tokens,
            stop=self._stop,
        )
        try:
            return _sound(environment.sample(policy, request), request)
        except (SamplingStopped, InferenceFailed):
            raise
        except Exception as error:
            if self._stop.is_set():  # A closed environment or server may raise anything.
                raise SamplingStopped from error
            if isinstance(error, LessonFailed):
                raise
            if isinstance(error, TokenUnknown):
                raise LessonFailed(
                    "tokenizer_unusable", f"the environment returned unknown tokens: {error}"
                ) from error
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise LessonFailed(
                "environment_failed",
                f"the environment raised {type(error).__name__}: {error} "
                f"({Path(where.filename).name}:{where.lineno})",
            ) from error

    def _finished(
        self, lesson_id: str, group: RolloutGroup, metadata: RolloutMetadata
    ) -> RolloutGroup:
        """Return a group with metadata, and with the lesson's threshold for success applied."""
        least = self._language.lessons[lesson_id].success_above
        return replace(
            group,
            rollouts=[
                replace(
                    rollout,
                    is_correct=rollout.is_correct if least is None else rollout.reward > least,
                    metadata=replace(
                        metadata, policy_version=rollout.oldest or metadata.policy_version
                    ),
                )
                for rollout in group.rollouts
            ],
        )


def _check_draw(n_examples: int, n_generations: int, rng: Draw) -> None:
    count("n_examples", n_examples)
    count("n_generations", n_generations)
    whole("seed", rng.seed, least=0, most=SEEDS_END - 1)
    whole("first_example", rng.first_example, least=0, most=NUMBERS_END - 1)


def _sound(sampled: Sampled, request: RolloutRequest) -> Sampled:
    """Return a result with the valid groups only.

    Raises:
        TypeError: If the environment returned another type.
    """
    if not isinstance(sampled, Sampled):
        raise TypeError(f"sample() returned {type(sampled).__name__}, expected Sampled")
    groups, faults = checked(
        sampled.groups,
        numbers=request.numbers,
        faulty=len(sampled.faults),
        generations=request.generations,
    )
    return replace(sampled, groups=groups, faults=[*sampled.faults, *faults])
