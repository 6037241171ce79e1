"""Command ``rolldeck rollout``: roll out a step environment without a platform or cluster."""

import argparse
import json
import logging
import math
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from rolldeck.fragment_files import FragmentFiles
from rollouts.fleet.steps import command_config
from rollouts.fleet.steps.local_rollout import Bound, LocalRollout, RolloutFailed
from runs.config.rules.run_config import RunConfig

SIGNALED: Final = 128
"""Exit code of a command that a signal ended, plus the signal's number."""


def main(argv: Sequence[str]) -> int:
    """Roll out and print.

    Returns:
        0, 1 if the rollout failed, 2 for invalid arguments, or 128 plus the number of the signal
        that ended the rollout.
    """
    args = _parser().parse_args(argv)
    try:
        config = _config(args)
        tensors = command_config.read_weights(args.weights) if args.weights else None
        files = FragmentFiles(args.out) if args.out else None
    except (OSError, ValueError) as error:
        _complain(error)
        return 2
    logger = logging.getLogger("rollouts")
    if not logger.handlers:
        # The events are printed by this command; without a handler Python prints them too.
        logger.addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory(prefix="rolldeck-rollout-") as temporary:
        rollout = LocalRollout(
            config,
            bound=Bound(episodes=args.episodes, env_steps=args.env_steps, seconds=args.seconds),
            deliver=files.add if files else lambda _: None,
            warn=_complain,
            log_root=args.out or Path(temporary),
            tensors=tensors,
            device=args.device,
        )
        try:
            with _stopped_by_signals(rollout.stop) as received:
                try:
                    result = rollout.run()
                finally:  # all its fragments are written, also if it fails
                    if files is not None:
                        files.close()
        except (RolloutFailed, OSError) as failure:
            _complain(failure)
            return 1
    _show(msgspec.to_builtins(result), is_json=args.json)
    return SIGNALED + received[0] if received else 0


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


def _config(args: argparse.Namespace) -> RunConfig:
    """Return the run's configuration with the changes of the arguments.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is not a JSON object, or a field is invalid.
    """
    raw = command_config.read(args)
    changes: dict[str, Any] = {
        "environment": {"spec": args.environment or None},
        "fleet": {"num_workers": args.workers, "envs_per_worker": args.envs},
    }
    if args.envs is not None and args.envs >= 1:
        batch = command_config.parse(raw, {}).fleet.inference_batch_size
        changes["fleet"]["inference_batch_size"] = min(batch, args.envs)
    return command_config.parse(raw, changes)


def _show(found: dict[str, Any], *, is_json: bool) -> None:
    width = max(map(len, found))
    lines = [f"{name:<{width}}  {'-' if value is None else value}" for name, value in found.items()]
    sys.stdout.write((json.dumps(found, indent=2) if is_json else "\n".join(lines)) + "\n")


def _complain(text: object) -> None:
    sys.stderr.write(f"rolldeck rollout: {text}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rolldeck rollout",
        description="Roll out a step environment on this machine, without a platform.",
    )
    command_config.add_arguments(parser, parts="environment, policy, fleet")
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
