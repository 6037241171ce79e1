"""Command ``rolldeck evaluate policy``: evaluate weights of a step policy without a platform."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rolldeck import safetensors
from rolldeck.wire import InvalidMessage
from rollouts.fleet.policies.policy_protocol import Policy, WeightsDoNotFit
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import derive_seed
from rollouts.fleet.steps.evaluation_round import EvaluationFailed, EvaluationRound, Weights
from rollouts.fleet.worker.episodes import EpisodeStatistics
from runs.config.rules import run_config
from runs.config.rules.run_config import InvalidRunConfig, RunConfig


def main(argv: Sequence[str]) -> int:
    """Evaluate and print; return 0, 1 if the evaluation failed, or 2 for invalid arguments."""
    args = _parser().parse_args(argv)
    try:
        config = _config(args)
        weights = Weights(0, safetensors.decode(args.weights.read_bytes()))
    except (OSError, ValueError, InvalidRunConfig, InvalidMessage) as error:
        _complain(str(error))
        return 2

    def make(observation: Space, action: Space) -> Policy:
        # Imported here, because --help needs no torch.
        from rollouts.fleet.policies.factory import make_policy

        seed = derive_seed(config.seed, "evaluation", "policy")
        policy = make_policy(config.policy, observation, action, seed=seed, device=args.device)
        policy.is_deterministic = config.evaluation.deterministic
        return policy

    statistics = EpisodeStatistics(worker=0, now=0.0)
    try:
        for episode in EvaluationRound(config, weights, make_policy=make).run():
            statistics.add(episode)
    except (EvaluationFailed, WeightsDoNotFit) as failure:
        _complain(str(failure))
        return 1
    [window] = statistics.pop(0.0)
    found = {name: getattr(window, name) for name in _SHOWN}
    lines = [f"{name:<12} {value}" for name, value in found.items()]
    sys.stdout.write((json.dumps(found, indent=2) if args.json else "\n".join(lines)) + "\n")
    return 0


_SHOWN = (
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


def _config(args: argparse.Namespace) -> RunConfig:
    """Return the run's configuration with the evaluation of the arguments.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is not a JSON object.
        InvalidRunConfig: If a field is invalid.
    """
    text = args.config
    raw: Any = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text())
    config = run_config.parse(raw)
    changes = {"episodes": args.episodes, "envs": args.envs}
    given = {name: value for name, value in changes.items() if value is not None}
    evaluation = msgspec.to_builtins(config.evaluation) | given
    environment = msgspec.to_builtins(config.environment)
    if args.sampled:
        evaluation["deterministic"] = False
    if args.environment:
        environment["spec"] = args.environment
    return run_config.parse(
        run_config.to_builtins(config) | {"evaluation": evaluation, "environment": environment}
    )


def _complain(text: str) -> None:
    sys.stderr.write(f"rolldeck evaluate policy: {text}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rolldeck evaluate policy", description="Evaluate weights of a step policy."
    )
    parser.add_argument(
        "--weights", type=Path, required=True, metavar="FILE", help="safetensors file"
    )
    parser.add_argument(
        "--config",
        default="{}",
        metavar="FILE|JSON",
        help="configuration of the run: environment, policy, evaluation (default: the defaults)",
    )
    parser.add_argument("--environment", metavar="SPEC", help="another environment")
    parser.add_argument("--episodes", type=int, help="number of episodes")
    parser.add_argument("--envs", type=int, help="environments that step concurrently")
    parser.add_argument("--sampled", action="store_true", help="sample the actions")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="cpu")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
