"""Command ``rolldeck evaluate``: evaluate a checkpoint on lessons without a platform or cluster.

The checkpoint is loaded by this process, or served by an inference server of any kind.
``rolldeck evaluate policy`` evaluates a step policy instead.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import click
import msgspec

from rolldeck.commands.base import Group, Number, shared_options, take_shared
from rollouts.fleet.groups.batches import RolloutBatch
from rollouts.fleet.groups.curriculum import NoCurriculum
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.steps.commands import evaluate_policy
from rollouts.lessons.rules.evaluation import EvaluationFigures
from runs.config.rules.language_config import (
    EvaluationConfig,
    LanguageConfig,
    LessonConfig,
    ModelConfig,
)

HEAD = ["lesson", "problems", "success", "90 %", "reward", "90 %", "tokens", "cut"]
TEXT_SHOWN = 60
COUNT: Final = click.IntRange(1, 100_000)
Results = dict[str, tuple[EvaluationFigures | None, RolloutBatch | None]]


def table(results: Mapping[str, Mapping[str, Any] | None]) -> str:
    """Return one row per lesson, followed by samples; a lesson without rollouts has no figures."""
    ks = sorted({int(k) for one in results.values() if one for k in one["pass_at"]} - {1})
    rows = [[*HEAD, *(f"pass@{k}" for k in ks)]]
    for name, figures in results.items():
        if figures is None:
            rows.append([name, "0", *["–"] * (len(HEAD) - 2 + len(ks))])
            continue
        rows.append(
            [
                name,
                str(figures["problems"]),
                *_interval(figures["success"]),
                *_interval(figures["reward"]),
                str(figures["tokens"]),
                str(figures["truncated"]),
                *(f"{figures['pass_at'][str(k)]:.3f}" for k in ks),
            ]
        )
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    for name, figures in results.items():
        samples = figures["samples"] if figures else []
        lines += [f"\n{name}"] if samples else []
        for sample in samples:
            mark = "✓" if sample["is_correct"] else "✗"
            texts = f"{_short(sample['prompt'])} → {_short(sample['response'])}"
            lines.append(f"  {mark} {sample['reward']:5.2f}  {texts}")
    return "\n".join(lines)


def _interval(value: Mapping[str, float]) -> tuple[str, str]:
    return f"{value['estimate']:.3f}", f"{value['low']:.3f}–{value['high']:.3f}"


def _short(text: str) -> str:
    plain = repr(text)[1:-1]
    return plain if len(plain) <= TEXT_SHOWN else plain[: TEXT_SHOWN - 1] + "…"


class InvalidLessons(ValueError):
    """The lessons are invalid; the text names the field."""


class _Evaluate(Group):
    """The command, which has a subcommand for step policies."""

    def invoke(self, ctx: click.Context) -> Any:
        """Evaluate lessons, or run the subcommand."""
        take_shared(ctx)
        return super().invoke(ctx)


@click.group(cls=_Evaluate, invoke_without_command=True)
@click.option("--checkpoint", type=click.Path(path_type=Path), help="Checkpoint folder; required.")
@click.option(
    "--lessons",
    metavar="FILE|JSON",
    help='Lessons by name, as {"add": {"spec": "task:addition"}} or a run configuration; required.',
)
@click.option(
    "--inference",
    default="",
    metavar="NAME",
    help="Server of ROLLDECK_INFERENCE_SERVERS that serves the checkpoint (default: none, this "
    "process loads it).",
)
@click.option("--examples", type=COUNT, default=256, help="Problems per lesson (default 256).")
@click.option(
    "--generations",
    type=COUNT,
    default=1,
    help="Answers per problem, the k of pass@k (default 1).",
)
@click.option(
    "--temperature",
    type=Number(0, 10),
    default=0.0,
    help="Sampling temperature; 0 is greedy (default 0).",
)
@click.option("--seed", type=int, default=0, help="Random seed of the run (default 0).")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    help="Device of the model (default: a GPU if available).",
)
@click.option("--samples", type=int, default=0, metavar="N", help="Show N answers per lesson.")
@click.pass_context
def evaluate(context: click.Context, /, **options: Any) -> int:
    """Evaluate a checkpoint on lessons; `evaluate policy` evaluates weights of a step policy.

    Exit code 1 if an evaluation failed, 2 for invalid options.
    """
    if context.invoked_subcommand:
        return 0
    args = SimpleNamespace(**options)
    missing = [name for name in ("checkpoint", "lessons") if options[name] is None]
    if missing:
        raise click.UsageError(f"Missing option '--{missing[0]}'.", context)
    try:
        lessons = read_lessons(args.lessons)
    except InvalidLessons as error:
        _complain(str(error))
        return 2
    events = EventLog()
    try:
        results = evaluated(args, lessons, events)
    except (ValueError, OSError, RuntimeError) as failure:
        _complain(str(failure))
        return 1
    for event in events.pop():
        _complain(f"{event.kind}: {event.message}")
    shown = dict[str, dict[str, Any] | None]()
    for name, (figures, batch) in results.items():
        shown[name] = None
        if figures is not None and batch is not None:
            samples = msgspec.to_builtins(batch.samples[: args.samples])
            shown[name] = msgspec.to_builtins(figures, str_keys=True) | {"samples": samples}
    take_shared(context).print(shown, table)
    return 0 if all(figures is not None for figures, _ in results.values()) else 1


def read_lessons(text: str) -> dict[str, LessonConfig]:
    """Return lessons by name from a JSON text or from the file with that path.

    Args:
        text: An object of lessons by name, or an object with a field `lessons` or `language`
            that contains them, such as the configuration of a run.

    Raises:
        InvalidLessons: If the lessons cannot be read or are invalid.
    """
    try:
        content = text if text.lstrip().startswith("{") else Path(text).read_text()
        found: Any = json.loads(content)
    except OSError as error:
        raise InvalidLessons(f"--lessons: {error}") from error
    except ValueError as error:
        raise InvalidLessons(f"--lessons is not JSON: {error}") from error
    for field in ("language", "lessons"):
        if isinstance(found, dict) and field in found:
            found = found[field]
    try:
        lessons = msgspec.convert(found, dict[str, LessonConfig])
    except msgspec.ValidationError as error:
        raise InvalidLessons(f"--lessons: {error}") from error
    if not lessons:
        raise InvalidLessons("--lessons is empty; name at least one lesson")
    return lessons


def evaluated(
    args: SimpleNamespace, lessons: Mapping[str, LessonConfig], events: EventLog
) -> Results:
    """Return the result of each lesson by name.

    Raises:
        CheckpointUnreadable: If the checkpoint is missing or invalid.
        TokenizerUnusable: If the tokenizer is missing or does not fit the model or the lessons.
        PolicyDoesNotFit: If the inference server is not configured on this machine.
        InferenceFailed: If the model fails, or the inference server is not ready in time.
    """
    # Imported here, because --help needs no torch.
    from rollouts.fleet.groups.rollout_manager import READY_SECONDS, RolloutManager
    from rollouts.fleet.inference.contract import InferenceFailed

    language = LanguageConfig(
        lessons=dict(lessons),
        model=ModelConfig(tokenizer="checkpoint"),
        inference=args.inference,
        evaluation=EvaluationConfig(
            examples=args.examples, generations=args.generations, temperature=args.temperature
        ),
    )
    with RolloutManager(
        language,
        args.checkpoint,
        seed=args.seed,
        device=args.device,
        curriculum=NoCurriculum(),
        worker_id="evaluate",
        events=events,
    ) as manager:
        if not manager.wait_until_ready(READY_SECONDS):
            raise InferenceFailed(f"{args.inference} is not ready after {READY_SECONDS:.0f} s")
        return manager.evaluate_curriculum()


def _complain(text: str) -> None:
    sys.stderr.write(f"rolldeck evaluate: {text}\n")


evaluate.params += shared_options(("as_json",))
evaluate.add_command(evaluate_policy)
