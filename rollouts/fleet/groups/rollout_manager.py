"""The rollout manager of lessons, as a library: sample, evaluate and follow a curriculum.

It needs no platform, cluster or trainer. A fleet's workers sample, evaluate and report through the
same :class:`GroupRolloutWorker`, and the platform decides about lessons by the same rules.
"""

import threading
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, get_args

import msgspec
import torch

from rolldeck.lessons import EvalType, RolloutTask
from rollouts.fleet.engine.checkpoints import read_tensors
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.groups.arguments import (
    NUMBERS_END,
    SEEDS_END,
    InvalidArgument,
    count,
    one_of,
    seconds,
    whole,
)
from rollouts.fleet.groups.batches import Draw, Mode, RolloutBatch
from rollouts.fleet.groups.curriculum import NoCurriculum
from rollouts.fleet.groups.language_policy import policy_of
from rollouts.fleet.groups.local_curriculum import LessonState, LocalCurriculum, training_task
from rollouts.fleet.groups.outbox import encoded
from rollouts.fleet.groups.worker import GroupRolloutWorker, Metrics
from rollouts.fleet.inference.contract import InferenceServer
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import derive_seed
from rollouts.lessons.rules.evaluation import EvaluationFigures
from rollouts.lessons.rules.lessons import evaluation_seed
from runs.config.rules.language_config import LanguageConfig
from runs.config.rules.run_config import InvalidRunConfig, combined, problems_in

ROWS: Final = 256
"""Maximum number of answers that a model in this process generates concurrently."""
READY_SECONDS: Final = 300.0
INITIAL: Final[Version] = (1, 0)
STEPS_END: Final = 1 << 31
DEVICES: Final = ("auto", "cpu", "cuda")
Evaluation = tuple[EvaluationFigures | None, RolloutBatch | None]
"""Figures and rollouts of an evaluated lesson; None where no rollout is valid."""


class ManagerShutDown(RuntimeError):
    """The manager was shut down."""


class RolloutManager:
    """Samples and evaluates the lessons of a language configuration, in this process.

    All methods may be called from several threads; updates of the model wait for each other. Equal
    configurations, seeds, weights and calls give equal rollouts.

    A batch (:class:`rollouts.fleet.groups.batches.RolloutBatch`) has groups of S answers to one
    problem. A rollout of T tokens has the columns `tokens` (int), `is_own` (bool, whether the
    policy wrote the token), `logprobs` (float, natural log, 0 for other tokens) and `versions`
    (epoch and step of the weights, None for other tokens), each ``[T]``, and one `reward`.
    """

    def __init__(
        self,
        language: LanguageConfig | Mapping[str, Any],
        checkpoint: Path | str | None = None,
        *,
        seed: int = 0,
        device: str = "auto",
        version: Version = INITIAL,
        server: InferenceServer | None = None,
        curriculum: LocalCurriculum | NoCurriculum | None = None,
        worker_id: str = "manager",
        events: EventLog | None = None,
    ) -> None:
        """Build tokenizer, model, inference server and curriculum.

        Args:
            language: Section `language` of a run's configuration.
            checkpoint: Folder in Hugging Face's layout. By default the model of the configuration:
                its checkpoint below ``ROLLDECK_CHECKPOINTS``, or weights that derive from `seed`.
            seed: Seed of the run: of problems, answers and draws of lessons, in [0, 2³¹).
            device: ``auto``, ``cpu`` or ``cuda``, for a model in this process.
            version: Epoch and step of the initial weights.
            server: Inference server that generates, closed by `shutdown`. By default
                the one that `language.inference` names, otherwise a model in this process. A named
                server keeps its weights if `checkpoint` is given.
            curriculum: Receiver of outcomes; by default a new one of the configuration.
            worker_id: Name in the metadata of rollouts.
            events: Log of faults and failures of lessons.

        Raises:
            InvalidArgument: If an argument has no accepted value.
            InvalidRunConfig: If a field of `language` is invalid; `field` is its path.
            InvalidCurriculum: If the lessons cannot be learnt under the strategy.
            CheckpointUnreadable: If the checkpoint is missing, damaged or unsupported.
            TokenizerUnusable: If the tokenizer does not fit the checkpoint or the lessons.
            PolicyDoesNotFit: If the device or the inference server is missing.
        """
        self._seed = whole("seed", seed, least=0, most=SEEDS_END - 1)
        one_of("device", device, DEVICES)
        self._version = _version_of(version)
        self._language = _language_of(language)
        if not isinstance(checkpoint, Path | str | None):
            raise InvalidArgument("checkpoint", checkpoint, "the path of a folder, or None")
        self._worker_id = worker_id
        self._curriculum = curriculum or LocalCurriculum(self._language, seed=seed)
        evaluation = self._language.evaluation
        sequences = max(self._language.most_sequences, evaluation.examples * evaluation.generations)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(seed, "weights"))
            self._policy = policy_of(
                self._language,
                device=device,
                rows=min(ROWS, sequences),
                checkpoint=None if checkpoint is None else Path(checkpoint),
                server=server,
                version=version,
            )
        self._worker = GroupRolloutWorker(
            self._language,
            server=self._policy.server,
            tokenizer=self._policy.tokenizer,
            context_tokens=self._policy.context_tokens,
            curriculum=self._curriculum,
            problem_seed=seed,
            events=events,
        )
        self._updating = threading.Lock()
        self._closing = threading.Lock()
        self._is_shut_down = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown()

    @property
    def version(self) -> Version:
        """Epoch and step of the weights in use."""
        return self._version

    def lesson_states(self) -> dict[str, LessonState]:
        """Return the state of each lesson in the curriculum, in the order of requirements."""
        return self._local_curriculum.states()

    def wait_until_ready(self, timeout_seconds: float = READY_SECONDS) -> bool:
        """Wait until answers can be generated; return False on timeout."""
        self._check_open()
        return self._worker.wait_until_ready(
            timeout_seconds=seconds("timeout_seconds", timeout_seconds)
        )

    def sample_batch(
        self,
        lesson_id: str | None = None,
        *,
        n_examples: int | None = None,
        n_generations: int | None = None,
        mode: Mode = "train",
        seed: int | None = None,
        first_example: int | None = None,
    ) -> tuple[RolloutBatch | None, Metrics | None]:
        """Return groups of a lesson, and their figures; two Nones if no group is valid.

        Args:
            lesson_id: Name of the lesson. By default the curriculum draws one.
            n_examples: Number of problems; by default `prompts_per_batch`, or for `mode` eval
                `evaluation.examples`.
            n_generations: Number of answers to each; by default `group_size`, or for `mode` eval
                `evaluation.generations`.
            mode: ``train``, or ``eval`` for problems of their own, at the temperature of
                evaluations.
            seed: Seed of the answers in [0, 2³¹); by default that of the run.
            first_example: Number of the first problem, the others follow; by default the next
                problem of the lesson that the curriculum has not assigned, or 0 for `mode` eval.

        Returns:
            The batch, and its figures by name: `reward_mean`, `reward_deviation` (inside groups),
            `success_rate`, `zero_variance_groups`, `tokens` (written by the policy),
            `tokens_per_second`, `length_mean`, `length_p95` (tokens of an answer),
            `truncated_share`, `duplicate_share`, `faults`, and `env.<name>` of the environment.

        Raises:
            InvalidArgument: If an argument has no accepted value.
            LessonFailed: If the environment of the lesson cannot be built, or raises.
            InferenceFailed: If the server can no longer generate.
            SamplingStopped: If the manager is shut down meanwhile.
            ManagerShutDown: If it was shut down before.
        """
        self._check_open()
        one_of("mode", mode, get_args(Mode))
        self._check_counts(n_examples, n_generations, seed)
        if lesson_id is not None:
            self._check_lesson(lesson_id)
        elif mode == "eval" or first_example is not None:
            raise InvalidArgument(
                "lesson_id", None, f"for mode 'eval', or with first_example, {self._known}"
            )
        first = whole("first_example", first_example or 0, least=0, most=NUMBERS_END - 1)
        evaluation = self._language.evaluation
        if lesson_id is not None and mode == "eval":
            task = RolloutTask(
                kind="evaluate",
                lesson=lesson_id,
                first_example=first,
                examples=evaluation.examples,
                generations=evaluation.generations,
                seed=evaluation_seed(seed=self._seed, lesson=lesson_id),
            )
        elif lesson_id is not None and first_example is not None:
            task = training_task(
                self._language, lesson_id, seed=self._seed, first_example=first, examples=n_examples
            )
        else:
            task = self._local_curriculum.next_task(lesson_id, examples=n_examples)
        return self._worker.sample_batch(
            task.lesson,
            n_examples=n_examples or task.examples,
            n_generations=n_generations or task.generations,
            mode=mode,
            rng=Draw(task.seed if seed is None else seed, task.first_example),
            policy_version=self._version,
            worker_id=self._worker_id,
        )

    def evaluate_lesson(
        self,
        lesson_id: str,
        *,
        n_examples: int | None = None,
        n_generations: int | None = None,
        eval_type: EvalType = "eval",
        seed: int | None = None,
    ) -> Evaluation:
        """Evaluate a lesson with the problems 0, 1, … of evaluations.

        Args:
            lesson_id: Name of the lesson, locked ones too.
            n_examples: Number of problems; by default `evaluation.examples`.
            n_generations: Number of answers to each; by default `evaluation.generations`.
            eval_type: ``eval`` counts in the curriculum and may change the status of lessons;
                ``micro_eval`` does not.
            seed: Seed of the answers in [0, 2³¹); by default that of the run.

        Returns:
            The figures (:class:`rollouts.lessons.rules.evaluation.EvaluationFigures`: success rate
            with its 90 % interval, pass@k, rewards, tokens, seconds) and the rollouts. Without a
            valid rollout both are None, and `events` has the reason.

        Raises:
            InvalidArgument: If an argument has no accepted value.
            InferenceFailed: If the server can no longer generate.
            SamplingStopped: If the manager is shut down meanwhile.
            ManagerShutDown: If it was shut down before.
        """
        self._check_open()
        self._check_lesson(lesson_id)
        self._check_counts(n_examples, n_generations, seed)
        evaluation = self._language.evaluation
        own = evaluation_seed(seed=self._seed, lesson=lesson_id)
        return self._worker.evaluate_lesson(
            lesson_id,
            n_examples=n_examples or evaluation.examples,
            n_generations=n_generations or evaluation.generations,
            eval_type=eval_type,
            rng=Draw(own if seed is None else seed),
            policy_version=self._version,
            worker_id=self._worker_id,
        )

    def evaluate_curriculum(
        self,
        *,
        lessons: Sequence[str] | None = None,
        n_examples: int | None = None,
        n_generations: int | None = None,
        eval_type: EvalType = "eval",
        seed: int | None = None,
    ) -> dict[str, Evaluation]:
        """Evaluate lessons one after the other; return the result of each by name.

        Args:
            lessons: Names; by default all lessons, also locked and graduated ones.
            n_examples: As in `evaluate_lesson`.
            n_generations: As in `evaluate_lesson`.
            eval_type: As in `evaluate_lesson`.
            seed: As in `evaluate_lesson`.
        """
        self._check_open()
        if isinstance(lessons, str):
            raise InvalidArgument("lessons", lessons, "a list of names")
        names = self._language.lesson_order if lessons is None else lessons
        for name in names:
            self._check_lesson(name, argument="lessons")
        return {
            name: self.evaluate_lesson(
                name,
                n_examples=n_examples,
                n_generations=n_generations,
                eval_type=eval_type,
                seed=seed,
            )
            for name in names
        }

    def update_training_stats(
        self, lesson_id: str, batch: RolloutBatch, metrics: Metrics | None = None
    ) -> list[str]:
        """Count a training batch in the curriculum; each call counts.

        Args:
            lesson_id: Lesson of the batch.
            batch: Batch of `sample_batch` with `mode` train.
            metrics: Its figures.

        Returns:
            The lessons whose status changed, each as ``<lesson>: <status>: <reason>``.

        Raises:
            InvalidArgument: If the batch is not a training batch of this lesson.
            ManagerShutDown: If the manager was shut down.
        """
        self._check_open()
        self._check_lesson(lesson_id)
        if not isinstance(batch, RolloutBatch):
            raise InvalidArgument("batch", batch, "a RolloutBatch of sample_batch")
        if (batch.metadata.lesson, batch.metadata.mode) != (lesson_id, "train"):
            of = f"{batch.metadata.lesson} ({batch.metadata.mode})"
            raise InvalidArgument("batch", of, f"a training batch of {lesson_id!r}")
        return self._worker.update_training_stats(lesson_id, batch, metrics)

    def update_model(
        self, weights: Mapping[str, Any] | Path | str, *, version: Version | int | None = None
    ) -> Version:
        """Use other weights from the next token on; answers in progress continue with them.

        Args:
            weights: Tensors (torch or NumPy) under the names of Hugging Face's checkpoints, or the
                folder of a checkpoint. Tensors of other names are ignored.
            version: Epoch and step of the weights, or the step in the current epoch; later than
                `version`. By default the next step.

        Returns:
            The version in use.

        Raises:
            InvalidArgument: If an argument has no accepted value.
            CheckpointUnreadable: If the folder is no checkpoint.
            WeightsDoNotFit: If a tensor is missing or has another shape.
            WeightsRejected: If an inference server refuses the weights, or keeps its own.
            ManagerShutDown: If the manager was shut down.

        After an error the manager has its former weights and version.
        """
        self._check_open()
        with self._updating:
            following = self._following(version)
            if isinstance(weights, Path | str):
                weights = read_tensors(Path(weights))
            elif not isinstance(weights, Mapping):
                raise InvalidArgument(
                    "weights", weights, "tensors by name, or the path of a folder"
                )
            for name, value in weights.items():
                if not hasattr(value, "shape"):
                    raise InvalidArgument(f"weights[{name!r}]", value, "a torch or NumPy tensor")
            self._policy.adopt(self._policy.prepare(weights))
            self._version = self._policy.draw_with(following)
            return self._version

    def shutdown(self) -> None:
        """Stop calls in progress within two seconds, and close environments and server.

        Further calls of `shutdown` do nothing.
        """
        with self._closing:
            if self._is_shut_down:
                return
            self._is_shut_down = True
        self._worker.shutdown()

    @staticmethod
    def encoded(batch: RolloutBatch) -> list[bytes]:
        """Return the groups of a batch, each an encoded :class:`rolldeck.wire.Group`.

        They have the fields that a fleet's workers push, and are those that
        :meth:`rolldeck.group_files.GroupFiles.add` takes.
        """
        about = batch.metadata
        return [encoded(one, lesson=about.lesson, worker=about.worker_id) for one in batch.groups]

    @property
    def _known(self) -> str:
        return f"one of {', '.join(self._language.lesson_order)}"

    def _check_open(self) -> None:
        if self._is_shut_down:
            raise ManagerShutDown("the rollout manager was shut down; construct another one")

    def _check_lesson(self, name: Any, *, argument: str = "lesson_id") -> None:
        if not isinstance(name, str) or name not in self._language.lessons:
            raise InvalidArgument(argument, name, self._known)

    @staticmethod
    def _check_counts(examples: Any, generations: Any, seed: Any) -> None:
        if examples is not None:
            count("n_examples", examples)
        if generations is not None:
            count("n_generations", generations)
        if seed is not None:
            whole("seed", seed, least=0, most=SEEDS_END - 1)

    @property
    def _local_curriculum(self) -> LocalCurriculum:
        """The curriculum, if it assigns problems."""
        if not isinstance(self._curriculum, LocalCurriculum):
            raise InvalidArgument(
                "curriculum", self._curriculum, "a LocalCurriculum, for this call"
            )
        return self._curriculum

    def _following(self, version: Any) -> Version:
        """Return the version of new weights."""
        epoch, step = self._version
        if version is None:
            return epoch, step + 1
        found = _version_of((epoch, version) if isinstance(version, Integral) else version)
        if found <= self._version:
            raise InvalidArgument("version", version, f"one later than {self._version}")
        return found


def _version_of(version: Any) -> Version:
    """Return a version that is a pair of numbers.

    Raises:
        InvalidArgument: If it is another value.
    """
    if not isinstance(version, tuple) or len(version) != 2:
        raise InvalidArgument("version", version, "a pair of epoch and step")
    epoch, step = (whole("version", number, least=0, most=STEPS_END - 1) for number in version)
    return epoch, step


def _language_of(language: Any) -> LanguageConfig:
    """Return a parsed configuration.

    Raises:
        InvalidRunConfig: With the path of the first invalid field; `others` are the further errors.
    """
    if isinstance(language, LanguageConfig):
        return language
    problems = problems_in(language, LanguageConfig, ("language",))
    if problems:
        raise combined([InvalidRunConfig(one.field, one.message) for one in problems])
    return msgspec.convert(language, LanguageConfig)
