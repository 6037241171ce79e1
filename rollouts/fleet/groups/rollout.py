"""Command ``rolldeck rollout``: sample a step environment, or lessons, on this machine.

A configuration with `language` samples groups of lessons with a :class:`RolloutManager`; others
step their environment.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import click

from rolldeck.commands.base import LocalCommand, Number, State
from rolldeck.group_files import GroupFiles
from rollouts.fleet.groups.batches import RolloutBatch
from rollouts.fleet.groups.errors import LessonFailed
from rollouts.fleet.groups.local_curriculum import LocalCurriculum
from rollouts.fleet.groups.outcomes import statistics_of
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.steps.commands import (
    FILE,
    SIGNALED,
    config_options,
    print_figures,
    print_warning,
    read_config,
    roll_out_steps,
    stopped_by_signals,
)
from rollouts.lessons.rules.lessons import InvalidCurriculum
from runs.config.rules import run_config
from runs.config.rules.language_config import LanguageConfig
from runs.config.rules.run_config import InvalidRunConfig

if TYPE_CHECKING:
    from rollouts.fleet.groups.rollout_manager import RolloutManager

LONGEST_SECONDS: Final = 365 * 86_400
OF_LESSONS: Final = ("checkpoint", "lesson", "groups")
OF_STEPS: Final = (
    *("environment", "weights", "workers", "envs"),
    *("episodes", "env_steps", "seconds"),
)
"""Options that a configuration of the other kind refuses."""


@click.command(cls=LocalCommand)
@config_options("environment, policy, fleet; or language")
@click.option("--seed", type=click.IntRange(0, (1 << 31) - 1), help="Another seed.")
@click.option("--out", type=FILE, metavar="DIR", help="Folder for the files (default: none).")
@click.option(
    "--weights",
    type=FILE,
    metavar="FILE",
    help="Safetensors file of the policy (default: initial weights from the seed).",
)
@click.option("--workers", type=int, help="Number of workers, each a thread.")
@click.option("--envs", type=int, help="Environments of each worker.")
@click.option("--episodes", type=click.IntRange(1), metavar="N", help="End after N episodes.")
@click.option("--env-steps", type=click.IntRange(1), metavar="N", help="End after N env steps.")
@click.option(
    "--seconds",
    type=Number(0, LONGEST_SECONDS, min_open=True),
    metavar="S",
    help="End S seconds after the first env step.",
)
@click.option(
    "--checkpoint",
    type=FILE,
    metavar="DIR",
    help="Lessons: checkpoint folder (default: the model of the configuration).",
)
@click.option(
    "--lesson", metavar="NAME", help="Lessons: the lesson (default: drawn by the curriculum)."
)
@click.option(
    "--groups", type=click.IntRange(1), metavar="N", help="Lessons: end after N problems."
)
def rollout(state: State, **options: Any) -> int:
    """Roll out a step environment, or lessons, on this machine, without a platform.

    Exit code 1 if the rollout failed, 2 for invalid options, or 128 plus the number of the signal
    that ended it.
    """
    args = SimpleNamespace(**options)
    try:
        raw = read_config(args)
    except (OSError, ValueError) as error:
        print_warning("rollout", error)
        return 2
    is_language = raw.get("language") is not None
    for name in OF_STEPS if is_language else OF_LESSONS:
        if options[name] is not None:
            without = "without lessons" if is_language else "with `language`"
            raise click.UsageError(f"--{name.replace('_', '-')} needs a configuration {without}")
    if not is_language:
        return roll_out_steps(args, raw, is_json=state.as_json)
    if args.groups is None:
        raise click.UsageError("a configuration with lessons needs --groups")
    return _roll_out_lessons(args, raw, is_json=state.as_json)


class _Stop:
    """Handler of a signal, which ends the batch in progress, but not the writing of one."""

    def __init__(self) -> None:
        self._is_set = self._is_deferred = False

    def __call__(self) -> None:
        self._is_set = True
        if not self._is_deferred:
            raise KeyboardInterrupt

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Raise the interrupt of a signal at the end of the block."""
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False
        if self._is_set:
            raise KeyboardInterrupt


@dataclass(slots=True)
class _Totals:
    """Sums over the batches of a rollout."""

    lessons: Counter[str] = field(default_factory=Counter)
    """Groups by lesson."""
    sequences: int = 0
    tokens: int = 0
    rewards: float = 0.0
    successes: int = 0
    truncated: int = 0
    zero_variance_groups: int = 0
    seconds: float = 0.0

    def add(self, batch: RolloutBatch) -> None:
        found = statistics_of(batch)
        self.lessons[batch.metadata.lesson] += found.groups
        self.sequences += found.answers
        self.tokens += found.tokens
        self.rewards += found.reward_mean * found.answers
        self.successes += sum(rollout.is_correct for rollout in batch.rollouts)
        self.truncated += found.truncated
        self.zero_variance_groups += found.zero_variance_groups
        self.seconds += batch.seconds

    def figures(self, groups: int) -> dict[str, Any]:
        """Return the figures to print; `groups` were requested."""
        answers = self.sequences
        return {
            "lessons": dict(self.lessons),
            "groups": self.lessons.total(),
            "missing_groups": groups - self.lessons.total(),
            "sequences": answers,
            "tokens": self.tokens,
            "reward_mean": round(self.rewards / answers, 6) if answers else None,
            "success_rate": round(self.successes / answers, 6) if answers else None,
            "truncated": self.truncated,
            "zero_variance_groups": self.zero_variance_groups,
            "seconds": round(self.seconds, 3),
            "tokens_per_second": round(self.tokens / self.seconds, 1) if self.seconds else 0.0,
        }


def _roll_out_lessons(args: SimpleNamespace, raw: Mapping[str, Any], *, is_json: bool) -> int:
    """Sample groups of lessons; return the exit code of the command."""
    warn = partial(print_warning, "rollout")
    try:
        seed = {} if args.seed is None else {"seed": args.seed}
        config = run_config.parse(run_config.merged(raw, seed))
        language = config.language
        assert language is not None  # noqa: S101
        if args.lesson is not None and args.lesson not in language.lessons:
            known = ", ".join(language.lesson_order)
            raise InvalidRunConfig("--lesson", f"{args.lesson!r} is no lesson; known: {known}")
        curriculum = LocalCurriculum(language, seed=config.seed)
        files = GroupFiles(args.out) if args.out else None
    except (OSError, ValueError, InvalidCurriculum) as error:
        warn(error)
        return 2
    # Imported here, because --help needs no torch.
    from rollouts.fleet.groups.rollout_manager import RolloutManager

    events, totals, stop = EventLog(), _Totals(), _Stop()
    received: list[int] = []
    code = 0
    try:
        try:
            with (
                stopped_by_signals(stop) as received,
                RolloutManager(
                    language,
                    args.checkpoint,
                    seed=config.seed,
                    device=args.device,
                    curriculum=curriculum,
                    worker_id="rollout",
                    events=events,
                ) as manager,
            ):
                for batch in _batches(manager, language, args):
                    with stop.deferred():
                        totals.add(batch)
                        if files is not None:
                            for group in manager.encoded(batch):
                                files.add(group)
        except KeyboardInterrupt:
            pass
        finally:  # all complete groups are written, also if it fails
            if files is not None:
                files.close()
    except (LessonFailed, ValueError, OSError, RuntimeError) as failure:
        warn(failure)
        code = 1
    for event in events.pop():
        warn(f"{event.kind}: {event.message}")
    figures = totals.figures(args.groups)
    print_figures(figures, is_json=is_json)
    return SIGNALED + received[0] if received else code or int(not figures["groups"])


def _batches(
    manager: "RolloutManager", language: LanguageConfig, args: SimpleNamespace
) -> Iterator[RolloutBatch]:
    """Yield batches until `--groups` problems are assigned, and count them in the curriculum."""
    names = [args.lesson] if args.lesson else language.lesson_order
    most = max(map(language.prompts_of, names))
    while left := args.groups - sum(one.assigned for one in manager.lesson_states().values()):
        batch, metrics = manager.sample_batch(
            args.lesson, n_examples=None if left >= most else left
        )
        if batch is not None:
            for change in manager.update_training_stats(batch.metadata.lesson, batch, metrics):
                print_warning("rollout", change)
            yield batch
