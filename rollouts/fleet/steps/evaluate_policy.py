"""Command ``rolldeck evaluate policy``: evaluate a step policy on this machine.

The weights are a file, or a version that a run has published on a platform.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from rolldeck import safetensors
from rolldeck.cli import DEFAULT_URL
from rolldeck.errors import RolldeckError
from rolldeck.http import Call, Connection
from rolldeck.published_weights import find_version, read_version
from rolldeck.wire import InvalidMessage
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit
from rollouts.fleet.steps import command_config
from rollouts.fleet.steps.evaluator import (
    EvaluationFailed,
    EvaluationRound,
    Weights,
    evaluation_policy,
)
from rollouts.fleet.worker.episodes import EpisodeStatistics
from runs.config.rules.run_config import InvalidRunConfig

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


class RunHasNoPolicy(Exception):
    """The run has no step policy."""


def main(argv: Sequence[str]) -> int:
    """Evaluate and print; return 0, 1 if the evaluation failed, or 2 for invalid arguments."""
    args = _arguments(argv)
    try:
        raw, weights, origin = _of_file(args) if args.run is None else _of_run(args)
    except (RolldeckError, RunHasNoPolicy) as failure:
        return _failed(failure, 1)
    except (OSError, ValueError) as error:
        return _failed(error, 2 if args.run is None else 1)
    try:
        config = command_config.parse(raw, _changes(args))
    except InvalidRunConfig as error:
        return _failed(error, 2)
    statistics = EpisodeStatistics(worker=0, now=0.0)
    make_policy = partial(evaluation_policy, config, device=args.device)
    try:
        for episode in EvaluationRound(config, weights, make_policy=make_policy).run():
            statistics.add(episode)
    except (EvaluationFailed, WeightsDoNotFit) as failure:
        return _failed(failure, 1)
    [window] = statistics.pop(0.0)
    found = origin | {name: getattr(window, name) for name in SHOWN}
    lines = [f"{name:<12} {value}" for name, value in found.items()]
    sys.stdout.write((json.dumps(found, indent=2) if args.json else "\n".join(lines)) + "\n")
    return 0


def _of_file(args: argparse.Namespace) -> tuple[dict[str, Any], Weights, dict[str, Any]]:
    """Return the configuration and the weights of the arguments, without an origin.

    Raises:
        OSError: If a file cannot be read.
        ValueError: If a file is invalid.
    """
    raw = command_config.read(args)
    return raw, Weights(0, command_config.read_weights(args.weights)), {}


def _of_run(args: argparse.Namespace) -> tuple[dict[str, Any], Weights, dict[str, Any]]:
    """Return the configuration and the weights of a run, and the version to print.

    Raises:
        RolldeckError: If the platform refuses or is unreachable, or the version does not exist.
        RunHasNoPolicy: If it is a language run or an outside run.
        InvalidMessage: If the weights are damaged.
        InvalidRunConfig: If this version of the command does not support the configuration.
        OSError: If the shared weights folder cannot be read.
    """
    token = args.token or os.environ.get("ROLLDECK_TOKEN")
    url = args.url or os.environ.get("ROLLDECK_URL", DEFAULT_URL)
    with Connection(url, token, retry_for_seconds=args.retry_for) as connection:
        path = f"/api/v1/runs/{quote(args.run, safe='')}"
        run = connection.json(Call(method="GET", path=path))
        if not isinstance(run, dict) or "kind" not in run:
            raise InvalidMessage(f"{url}{path} is not a run; is it a Rolldeck platform?")
        config = run.get("config") or {}
        if run["kind"] != "fleet" or config.get("language"):
            kind = "a language" if config.get("language") else f"an {run['kind']}"
            raise RunHasNoPolicy(f"run {args.run!r} is {kind} run; it has no step policy")
        command_config.parse(config, {})
        version = find_version(connection, args.run, args.version)
        content = read_version(connection, args.run, version, folder=args.weights_directory)
    origin = {"run": args.run, "epoch": version.epoch, "version": version.step}
    return config, Weights(version.step, safetensors.decode(content)), origin


def _changes(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "environment": {"spec": args.environment or None},
        "evaluation": {
            "episodes": args.episodes,
            "envs": args.envs,
            "deterministic": False if args.sampled else None,
        },
    }


def _failed(error: Exception, code: int) -> int:
    sys.stderr.write(f"rolldeck evaluate policy: {error}\n")
    return code


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    args = parser.parse_args(argv)
    if args.run is not None and (args.config or args.preset):
        parser.error("--config and --preset need --weights: the run has a configuration")
    if args.run is None and (args.version is not None or args.weights_directory):
        parser.error("--version and --weights-directory need --run")
    return args


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rolldeck evaluate policy", description="Evaluate weights of a step policy."
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--weights", type=Path, metavar="FILE", help="safetensors file")
    source.add_argument(
        "--run", help="run on a platform: its configuration and its newest published version"
    )
    command_config.add_arguments(parser, parts="environment, policy, evaluation")
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
    return parser
