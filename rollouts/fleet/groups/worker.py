"""Sample lessons and evaluate them: what computes in a language run, without any I/O."""

import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rolldeck.lessons import EvalType, LessonOutcome
from rollouts.curriculum.rules.evaluation import EvaluationFigures
from rollouts.curriculum.rules.evaluation import figures_of as evaluation_figures
from rollouts.fleet.engine.engine import TokenUnknown, Version
from rollouts.fleet.engine.tokenizers import Tokenizer
from rollouts.fleet.groups.batches import Draw, Mode, RolloutBatch, RolloutGroup, RolloutMetadata
from rollouts.fleet.groups.checked_groups import checked
from rollouts.fleet.groups.curriculum import Curriculum
from rollouts.fleet.groups.environments import GroupEnvironment, Sampled, Wanted, load_environment
from rollouts.fleet.groups.errors import Fault, LessonFailed, SamplingStopped
from rollouts.fleet.groups.fault_log import Events, FaultLog
from rollouts.fleet.groups.outcomes import Lease, figures_of, outcome_of
from rollouts.fleet.groups.policy_context import PolicyContext
from rollouts.fleet.inference.contract import InferenceFailed, InferenceServer
from rollouts.fleet.worker.loops import EventLog
from rollouts.fleet.worker.settings import derive_seed
from runs.core.language_config import LanguageConfig, SamplingConfig

Metrics = dict[str, float]


class GroupRolloutWorker:
    """Prompts × generations in, groups out; whoever coordinates stores, sends and logs them.

    Everything that varies comes in as arguments, so threads may share a worker, and any worker
    gives the same problems and draws for the same :class:`Draw`.
    """

    def __init__(
        self,
        language: LanguageConfig,
        *,
        server: InferenceServer,
        tokenizer: Tokenizer,
        context_tokens: int,
        curriculum: Curriculum,
        problem_seed: int = 0,
        events: Events | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Load no environment yet.

        Args:
            language: Lessons, and how they are sampled and evaluated.
            server: Generates; this worker's from now on.
            tokenizer: Of the policy.
            context_tokens: That a prompt and what follows it may have together.
            curriculum: Hears how rollouts ended.
            problem_seed: Problems derive from it, their number and their mode alone.
            events: Hears of faults.
            now: Unix time in seconds.
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
        """Return whether answers can be generated, within the time and unless it is shut down."""
        return self._server.wait_until_ready(timeout_seconds=timeout_seconds, stop=self._stop)

    def load_environment(self, lesson_id: str) -> GroupEnvironment:
        """Return the lesson's environment, built with the first call.

        Raises:
            LessonFailed: If there is no such lesson, or it cannot be built.
        """
        with self._lock:
            if lesson_id not in self._environments:
                lesson = self._language.lessons.get(lesson_id)
                if lesson is None:
                    raise LessonFailed("lesson_unknown", f"there is no lesson {lesson_id!r}")
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
    ) -> tuple[RolloutBatch | None, Metrics | None]:
        """Return groups with metadata, and figures of them; two Nones if nothing sound came.

        Args:
            lesson_id: Name of the lesson.
            n_examples: Problems.
            n_generations: Answers to each.
            mode: Problems of training or of evaluation; the latter has sampling of its own.
            rng: Which problems, and how answers are drawn.
            policy_version: Known to draw when this is called; a rollout carries the oldest
                version that drew any of it, which cannot be older.
            worker_id: Who samples.

        Raises:
            LessonFailed: If the environment raises; other lessons are not concerned.
            SamplingStopped: If the worker was shut down.
            InferenceFailed: If the server generates nothing more.
        """
        began = time.monotonic()
        wanted = Wanted(
            numbers=range(rng.first_example, rng.first_example + n_examples),
            generations=n_generations,
            mode=mode,
            problem_seed=self._problem_seed,
            seed=derive_seed(rng.seed, lesson_id, mode),
        )
        sampled = self._sample(lesson_id, wanted)
        for fault in sampled.faults:
            self._faults.tell(lesson_id, fault)
        groups = sampled.groups
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
            groups=[self._finished(lesson_id, group, metadata) for group in groups],
            metadata=metadata,
            draw=rng,
            seconds=time.monotonic() - began,
        )
        metrics = figures_of(batch) | {
            f"env.{name}": value for name, value in sampled.metrics.items()
        }
        return batch, metrics | {"faults": float(len(sampled.faults))}

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
        """Evaluate a lesson, tell the curriculum, and return figures and rollouts, if any came.

        Only the type `eval` moves lessons; `micro_eval` is for people to look at. Draws derive
        from `rng`, the lesson and the mode, so no two lessons share them.

        Args:
            lesson_id: Name of the lesson.
            n_examples: Problems.
            eval_type: What the curriculum hears.
            rng: Which problems, and how answers are drawn.
            policy_version: Of the policy.
            worker_id: Who evaluates.
            n_generations: Answers to each problem; 0 for as many as the run's evaluation wants.
            lease: Of the evaluation, where the platform gave one.

        Raises:
            SamplingStopped: If the worker was shut down.
            InferenceFailed: If the server generates nothing more.
        """
        generations = n_generations or self._language.evaluation.generations
        error = ""
        try:
            batch, _ = self.sample_batch(
                lesson_id,
                n_examples=n_examples,
                n_generations=generations,
                mode="eval",
                rng=rng,
                policy_version=policy_version,
                worker_id=worker_id,
            )
        except LessonFailed as failure:
            self._faults.tell(lesson_id, Fault(failure.kind, str(failure)), level="error")
            batch, error = None, str(failure)
        outcome = outcome_of(
            batch,
            lesson=lesson_id,
            mode=eval_type,
            worker_id=worker_id,
            policy_version=batch.policy_version if batch else policy_version,
            draw=rng,
            generations=generations,
            lease=lease,
            error=error or ("" if batch else "no valid rollout came"),
        )
        self._record(lesson_id, outcome)
        return _evaluated(outcome), batch

    def evaluate_curriculum(
        self,
        *,
        eval_n_examples: int,
        rng: Draw,
        policy_version: Version,
        worker_id: str,
    ) -> dict[str, tuple[EvaluationFigures | None, RolloutBatch | None]]:
        """Evaluate every lesson; see `evaluate_lesson`."""
        return {
            name: self.evaluate_lesson(
                name,
                n_examples=eval_n_examples,
                eval_type="eval",
                rng=rng,
                policy_version=policy_version,
                worker_id=worker_id,
            )
            for name in self._language.lessons
        }

    def update_training_stats(self, lesson_id: str, batch: RolloutBatch) -> list[str]:
        """Tell the curriculum how training rollouts ended; return which lessons moved, and why.

        Returns once the curriculum has written it down.
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
            ),
        )

    def report_failure(
        self,
        lesson_id: str,
        failure: LessonFailed,
        *,
        draw: Draw,
        policy_version: Version,
        worker_id: str,
    ) -> None:
        """Tell of a lesson that gave no training rollouts: people see why, nothing else moves."""
        self._faults.tell(lesson_id, Fault(failure.kind, str(failure)), level="error")
        self._record(
            lesson_id,
            outcome_of(
                None,
                lesson=lesson_id,
                mode="train",
                worker_id=worker_id,
                policy_version=policy_version,
                draw=draw,
                generations=self._language.group_size,
                error=str(failure),
            ),
        )

    def update_model(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Draw with other weights from the next token on; what is under way goes on.

        Raises:
            WeightsDoNotFit: If they are not the model's.
        """
        self._server.update_weights(tensors, version)

    def shutdown(self) -> None:
        """End whatever samples or evaluates, within two seconds, and the inference server."""
        self._stop.set()
        self._server.close()

    def _record(self, lesson_id: str, outcome: LessonOutcome) -> list[str]:
        return self._curriculum.record(lesson_id, outcome).changes

    def _sample(self, lesson_id: str, wanted: Wanted) -> Sampled:
        """Return the sound groups that the lesson's environment gives, and faults of the others."""
        environment = self.load_environment(lesson_id)
        policy = PolicyContext(
            server=self._server,
            tokenizer=self._tokenizer,
            sampling=self._sampling(lesson_id, wanted.mode),
            context_tokens=self._context_tokens,
            stop=self._stop,
        )
        try:
            return _sound(environment.sample(policy, wanted), wanted)
        except (SamplingStopped, InferenceFailed, LessonFailed):
            raise
        except TokenUnknown as error:
            raise LessonFailed(
                "tokenizer_unusable", f"the environment writes tokens that are not ours: {error}"
            ) from error
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise LessonFailed(
                "environment_failed",
                f"the environment raised {type(error).__name__}: {error} "
                f"({Path(where.filename).name}:{where.lineno})",
            ) from error

    def _sampling(self, lesson_id: str, mode: Mode) -> SamplingConfig:
        """Return how answers are drawn: evaluation has its own temperature and no limits."""
        sampling = self._language.lessons[lesson_id].sampling
        if mode == "train":
            return sampling
        return SamplingConfig(
            temperature=self._language.evaluation.temperature, max_tokens=sampling.max_tokens
        )

    def _finished(
        self, lesson_id: str, group: RolloutGroup, metadata: RolloutMetadata
    ) -> RolloutGroup:
        """Return a group whose rollouts say where they came from, and count as the lesson says."""
        least = self._language.lessons[lesson_id].success_above
        return RolloutGroup(
            example=group.example,
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


def _sound(sampled: Sampled, wanted: Wanted) -> Sampled:
    """Return what is good of what an environment gave.

    Raises:
        TypeError: If it gave something else.
    """
    if not isinstance(sampled, Sampled):
        raise TypeError(f"sample() gave {type(sampled).__name__}, not Sampled")
    groups, faults = checked(
        sampled.groups,
        wanted=len(wanted.numbers) - len(sampled.faults),
        generations=wanted.generations,
    )
    return replace(sampled, groups=groups, faults=[*sampled.faults, *faults])


def _evaluated(outcome: LessonOutcome) -> EvaluationFigures | None:
    if not outcome.rewards:
        return None
    return evaluation_figures(
        outcome.rewards,
        outcome.successes,
        generations=outcome.generations,
        tokens=outcome.tokens,
        truncated=outcome.truncated,
        seconds=outcome.seconds,
    )
