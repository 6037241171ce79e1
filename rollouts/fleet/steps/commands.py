"""Commands for step policies: ``rolldeck rollout`` and ``rolldeck evaluate policy``.

Both run on this machine without a cluster. `rollout` also needs no platform; `evaluate_policy`
takes the weights from a file, or a version that a run has published on a platform.
"""

import argparse
import json
import logging
import math
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
from numpy.typing import NDArray

from rolldeck import safetensors
from rolldeck.errors import InvalidMessageError, RolldeckError
from rolldeck.fragment_files import FragmentFiles
from rolldeck.http import Call, Connection
from rolldeck.profiles import DEFAULT_URL
from rolldeck.published_weights import find_version, read_version
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit
from rollouts.fleet.steps.evaluator import EvaluationFailed, EvaluationRound, evaluation_policy
from rollouts.fleet.steps.local_rollout import Bound, LocalRollout, RolloutFailed
from rollouts.fleet.weights.records import WeightsRecord
from rollouts.fleet.worker.episodes import EpisodeStatistics
from runs.config.rules import run_config
from runs.config.rules.run_config import PRESETS, InvalidRunConfig, RunConfig

SIGNALED: Final = 128
"""Exit code of a command that a signal ended, plus the signal's number."""
SHOWN: Final = (
    "environment",
    "count",
    "return_mean",
    "return_min",
    "return_p10",
    "return_p50",
    "return_p90",
    "return_max",
    "length_mean",
    "length_max",
    "terminated",
    "truncated",
)
"""Figures of an evaluation that are printed."""


class RunHasNoPolicy(Exception):
    """The run has no step policy."""


def rollout(argv: Sequence[str]) -> int:
    """Roll out and print.

    Returns:
        0, 1 if the rollout failed, 2 for invalid arguments, or 128 plus the number of the signal
        that ended the rollout.
    """
    args = _rollout_parser().parse_args(argv)
    warn = partial(_warn, "rollout")
    try:
        raw = _read_config(args)
        changes: dict[str, Any] = {
            "environment": {"spec": args.environment or None},
            "fleet": {"num_workers": args.workers, "envs_per_worker": args.envs},
        }
        if args.envs is not None and args.envs >= 1:
            batch = _step_config(raw, {}).fleet.inference_batch_size
            changes["fleet"]["inference_batch_size"] = min(batch, args.envs)
        config = _step_config(raw, changes)
        tensors = _read_weights(args.weights) if args.weights else None
        files = FragmentFiles(args.out) if args.out else None
    except (OSError, ValueError) as error:
        warn(error)
        return 2
    logger = logging.getLogger("rollouts")
    if not logger.handlers:
        # The events are printed by this command; without a handler Python prints them too.
        logger.addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory(prefix="rolldeck-rollout-") as temporary:
        local = LocalRollout(
            config,
            bound=Bound(episodes=args.episodes, env_steps=args.env_steps, seconds=args.seconds),
            deliver=files.add if files else lambda _: None,
            warn=warn,
            log_root=args.out or Path(temporary),
            tensors=tensors,
            device=args.device,
        )
        try:
            with _stopped_by_signals(local.stop) as received:
                try:
                    result = local.run()
                finally:  # all its fragments are written, also if it fails
                    if files is not None:
                        files.close()
        except (RolloutFailed, OSError) as failure:
            warn(failure)
            return 1
    _print(msgspec.to_builtins(result), is_json=args.json)
    return SIGNALED + received[0] if received else 0


def _rollout_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rolldeck rollout",
        description="Roll out a step environment on this machine, without a platform.",
    )
    _add_config_arguments(parser, parts="environment, policy, fleet")
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="safetensors file (default: initial weights from the seed of the configuration)",
    )
    parser.add_argument("--workers", type=int, help="number of workers, each a thread")
    parser.add_argument("--envs", type=int, help="environments of each worker")
    bound = parser.add_mutually_exclusive_group(required=True)
    bound.add_argument("--episodes", type=_count, metavar="N", help="end after N episodes")
    bound.add_argument("--env-steps", type=_count, metavar="N", help="end after N env steps")
    bound.add_argument(
        "--seconds", type=_seconds, metavar="S", help="end S seconds after the first env step"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the fragments (default: none)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number of seconds")
    return number


@contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[list[int]]:
    """Call `stop` at the first SIGINT or SIGTERM; yield the list of received signals.

    The second signal ends the process at once; the kernel then ends the env processes.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def handle(number: int, _frame: object) -> None:
        received.append(number)
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        stop()

    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    for each in before:
        signal.signal(each, handle)
    try:
        yield received
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def evaluate_policy(argv: Sequence[str]) -> int:
    """Evaluate and print; return 0, 1 if the evaluation failed, or 2 for invalid arguments."""
    args = _evaluation_arguments(argv)
    warn = partial(_warn, "evaluate policy")
    origin: dict[str, Any] = {}
    try:
        if args.run is None:
            raw = _read_config(args)
            weights = WeightsRecord(epoch=0, step=0, tensors=_read_weights(args.weights))
        else:
            raw, weights, origin = _read_run(args)
    except (RolldeckError, RunHasNoPolicy, OSError, ValueError) as error:
        warn(error)
        return 2 if args.run is None else 1
    changes = {
        "environment": {"spec": args.environment or None},
        "evaluation": {
            "episodes": args.episodes,
            "envs": args.envs,
            "deterministic": False if args.sampled else None,
        },
    }
    try:
        config = _step_config(raw, changes)
    except InvalidRunConfig as error:
        warn(error)
        return 2
    statistics = EpisodeStatistics(worker=0, now=0.0)
    make_policy = partial(evaluation_policy, config, device=args.device)
    try:
        for episode in EvaluationRound(config, weights, make_policy=make_policy).run():
            statistics.add(episode)
    except (EvaluationFailed, WeightsDoNotFit) as failure:
        warn(failure)
        return 1
    [window] = statistics.pop(0.0)
    _print(origin | {name: getattr(window, name) for name in SHOWN}, is_json=args.json)
    return 0


def _evaluation_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="rolldeck evaluate policy", description="Evaluate weights of a step policy."
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--weights", type=Path, metavar="FILE", help="safetensors file")
    source.add_argument(
        "--run", help="run on a platform: its configuration and its newest published version"
    )
    _add_config_arguments(parser, parts="environment, policy, evaluation")
    parser.add_argument("--episodes", type=int, help="number of episodes")
    parser.add_argument("--envs", type=int, help="environments that step concurrently")
    parser.add_argument("--sampled", action="store_true", help="sample the actions")
    parser.add_argument("--json", action="store_true", help="print JSON")
    of_run = parser.add_argument_group("with --run")
    of_run.add_argument("--version", type=int, metavar="STEP", help="another published version")
    of_run.add_argument(
        "--weights-directory",
        type=Path,
        metavar="DIR",
        help="shared weights folder of the run, if it uses one",
    )
    of_run.add_argument("--url", help=f"URL of the platform (ROLLDECK_URL; default {DEFAULT_URL})")
    of_run.add_argument("--token", help="an API token that may read the run (ROLLDECK_TOKEN)")
    of_run.add_argument(
        "--retry-for", type=float, default=5.0, metavar="SECONDS", help="time to retry (default 5)"
    )
    args = parser.parse_args(argv)
    if args.run is not None and (args.config or args.preset):
        parser.error("--config and --preset need --weights: the run has a configuration")
    if args.run is None and (args.version is not None or args.weights_directory):
        parser.error("--version and --weights-directory need --run")
    return args


def _read_run(args: argparse.Namespace) -> tuple[dict[str, Any], WeightsRecord, dict[str, Any]]:
    """Return the configuration and the weights of a run, and the version to print.

    Raises:
        RolldeckError: If the platform refuses or is unreachable, or the version does not exist.
        RunHasNoPolicy: If it is a language run or an outside run.
        InvalidMessageError: If the weights are damaged.
        InvalidRunConfig: If this version of the command does not support the configuration.
        OSError: If the shared weights folder cannot be read.
    """
    with Connection(args.url, args.token, retry_for_seconds=args.retry_for) as connection:
        path = f"/api/v1/runs/{quote(args.run, safe='')}"
        run = connection.json(Call(method="GET", path=path))
        if not isinstance(run, dict) or "kind" not in run:
            raise InvalidMessageError(
                f"{connection.url}{path} is not a run; is it a Rolldeck platform?"
            )
        config = run.get("config") or {}
        if run["kind"] != "fleet" or config.get("language"):
            kind = "a language" if config.get("language") else f"an {run['kind']}"
            raise RunHasNoPolicy(f"run {args.run!r} is {kind} run; it has no step policy")
        _step_config(config, {})
        version = find_version(connection, args.run, args.version)
        content = read_version(connection, args.run, version, folder=args.weights_directory)
    tensors = safetensors.decode(content)
    weights = WeightsRecord(epoch=version.epoch, step=version.step, tensors=tensors)
    return config, weights, {"run": args.run, "epoch": version.epoch, "version": version.step}


def _add_config_arguments(parser: argparse.ArgumentParser, *, parts: str) -> None:
    """Add the arguments that describe a run; `parts` are the used sections of its configuration."""
    parser.add_argument(
        "--config",
        metavar="FILE|JSON",
        help=f"configuration of the run: {parts} (default: the defaults)",
    )
    parser.add_argument("--preset", choices=list(PRESETS), help="preset below the configuration")
    parser.add_argument("--environment", metavar="SPEC", help="another environment")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="cpu")


def _read_config(args: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration that the arguments name, as JSON values, unchecked.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is not a JSON object.
    """
    text = args.config or "{}"
    content = text if text.lstrip().startswith("{") else Path(text).read_text()
    try:
        given = json.loads(content)
    except ValueError as error:
        raise ValueError(f"--config is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ValueError("--config is not a JSON object")  # noqa: TRY004 invalid value, not type
    base = run_config.to_builtins(PRESETS[args.preset][1]) if args.preset else {}
    return run_config.merged(base, given)


def _step_config(raw: Mapping[str, Any], changes: Mapping[str, Any]) -> RunConfig:
    """Return a step run's configuration with changes; changes of None keep the value.

    Raises:
        InvalidRunConfig: If a field is invalid, or the configuration is that of a language run.
    """
    config = run_config.parse(run_config.merged(raw, _given(changes)))
    if config.language is not None:
        raise InvalidRunConfig("language", "a language run has no step environment")
    return config


def _given(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes without those that are None."""
    inside = {
        name: _given(value) if isinstance(value, Mapping) else value
        for name, value in changes.items()
    }
    return {name: value for name, value in inside.items() if value is not None}


def _read_weights(path: Path) -> dict[str, NDArray[Any]]:
    """Return the tensors of a safetensors file.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is not a safetensors file.
    """
    try:
        return safetensors.decode(path.read_bytes())
    except InvalidMessageError as error:
        raise ValueError(f"--weights {path} is not a safetensors file: {error}") from error


def _print(figures: Mapping[str, Any], *, is_json: bool) -> None:
    width = max(map(len, figures))
    lines = [
        f"{name:<{width}}  {'-' if value is None else value}" for name, value in figures.items()
    ]
    sys.stdout.write((json.dumps(figures, indent=2) if is_json else "\n".join(lines)) + "\n")


def _warn(command: str, text: object) -> None:
    sys.stderr.write(f"rolldeck {command}: {text}\n")
