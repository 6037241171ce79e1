"""Command ``rolldeck evaluate``: evaluate a checkpoint on lessons without a platform or cluster."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from rollouts.fleet.groups.batches import Draw, RolloutBatch
from rollouts.fleet.groups.curriculum import NoCurriculum
from rollouts.fleet.groups.evaluation_table import table
from rollouts.fleet.process.loops import EventLog
from rollouts.lessons.rules.evaluation import EvaluationFigures
from rollouts.lessons.rules.lesson_draws import evaluation_seed
from runs.config.rules.language_config import (
    EvaluationConfig,
    LanguageConfig,
    LessonConfig,
    ModelConfig,
)

ROWS: Final = 256
"""Maximum number of answers generated concurrently."""
Results = dict[str, tuple[EvaluationFigures | None, RolloutBatch | None]]


class InvalidLessons(ValueError):
    """The lessons are invalid; the text names the field."""


def main(argv: Sequence[str]) -> int:
    """Evaluate and print; return 0, 1 if an evaluation failed, or 2 for invalid arguments."""
    args = _parser().parse_args(argv)
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
    shown = {name: _plain(*result, samples=args.samples) for name, result in results.items()}
    sys.stdout.write((json.dumps(shown, indent=2) if args.json else table(shown)) + "\n")
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
    args: argparse.Namespace, lessons: Mapping[str, LessonConfig], events: EventLog
) -> Results:
    """Return the result of each lesson by name.

    Raises:
        CheckpointUnreadable: If the checkpoint is missing or invalid.
        TokenizerUnusable: If the tokenizer is missing or does not fit.
        InferenceFailed: If the model fails.
    """
    # Imported here, because --help needs no torch.
    from rollouts.fleet.engine.checkpoints import load
    from rollouts.fleet.engine.tokenizers import check_fit, load_tokenizer
    from rollouts.fleet.groups.torch_server import TorchInferenceServer
    from rollouts.fleet.groups.worker import GroupRolloutWorker
    from rollouts.fleet.policies.base import device_of

    model = load(args.checkpoint, device=str(device_of(args.device)))
    tokenizer = load_tokenizer(args.checkpoint)
    check_fit(tokenizer, vocab_size=model.config.vocab_size)
    worker = GroupRolloutWorker(
        LanguageConfig(
            lessons=dict(lessons),
            model=ModelConfig(tokenizer="checkpoint"),
            evaluation=EvaluationConfig(
                examples=args.examples, generations=args.generations, temperature=args.temperature
            ),
        ),
        server=TorchInferenceServer(
            model, rows=min(ROWS, args.examples * args.generations), version=(0, 0)
        ),
        tokenizer=tokenizer,
        context_tokens=model.config.max_position_embeddings,
        curriculum=NoCurriculum(),
        problem_seed=args.seed,
        events=events,
    )
    try:
        return {
            name: worker.evaluate_lesson(
                name,
                n_examples=args.examples,
                eval_type="eval",
                rng=Draw(evaluation_seed(seed=args.seed, lesson=name)),
                policy_version=(0, 0),
                worker_id="evaluate",
            )
            for name in lessons
        }
    finally:
        worker.shutdown()


def _complain(text: str) -> None:
    sys.stderr.write(f"rolldeck evaluate: {text}\n")


def _plain(
    figures: EvaluationFigures | None, batch: RolloutBatch | None, *, samples: int
) -> dict[str, Any] | None:
    if figures is None or batch is None:
        return None
    shown: dict[str, Any] = msgspec.to_builtins(figures, str_keys=True)
    return shown | {"samples": msgspec.to_builtins(batch.samples[:samples])}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rolldeck evaluate", description="Evaluate a checkpoint on lessons."
    )
    parser.add_argument("--checkpoint", type=Path, required=True, help="checkpoint folder")
    parser.add_argument(
        "--lessons",
        required=True,
        metavar="FILE|JSON",
        help='lessons by name, as in a run configuration: {"add": {"spec": "task:addition"}}',
    )
    parser.add_argument(
        "--examples", type=_count, default=256, help="problems per lesson (default 256)"
    )
    parser.add_argument(
        "--generations",
        type=_count,
        default=1,
        help="answers per problem, the k of pass@k (default 1)",
    )
    parser.add_argument(
        "--temperature",
        type=_temperature,
        default=0.0,
        help="sampling temperature; 0 is greedy (default 0)",
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed of the run (default 0)")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument(
        "--samples", type=int, default=0, metavar="N", help="show N answers per lesson"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 100_000:
        raise argparse.ArgumentTypeError(f"{number} is not between 1 and 100000")
    return number


def _temperature(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 10:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 10")
    return number
