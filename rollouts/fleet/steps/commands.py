"""Rollouts and evaluations of step policies on this machine, without a cluster.

``rolldeck rollout`` calls `roll_out_steps`, which needs no platform. ``rolldeck evaluate policy``
takes the weights from a file, or a version that a run has published on a platform.
"""

import json
import logging
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import quote

import click
import msgspec
from numpy.typing import NDArray

from rolldeck import safetensors
from rolldeck.commands.base import ApiCommand, State
from rolldeck.errors import InvalidMessageError, RolldeckError
from rolldeck.fragment_files import FragmentFiles
from rolldeck.http import Call
from rolldeck.published_weights import find_version, read_version
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit
from rollouts.fleet.steps.evaluator import EvaluationFailed, EvaluationRound, evaluation_policy
from rollouts.fleet.steps.local_rollout import Bound, LocalRollout, RolloutFailed
from rollouts.fleet.weights.records import WeightsRecord
from rollouts.fleet.worker.episodes import EpisodeStatistics
from runs.config.rules import run_config
from runs.config.rules.run_config import PRESETS, InvalidRunConfig, RunConfig

FILE: Final = click.Path(path_type=Path)
RETRY_SECONDS: Final = 5.0
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


def config_options(sections: str) -> Callable[[Any], Any]:
    """Return a decorator that adds the options of a run; `sections` are those that are used."""
    options = [
        click.option(
            "--config",
            metavar="FILE|JSON",
            help=f"Configuration of the run: {sections} (default: the defaults).",
        ),
        click.option(
            "--preset", type=click.Choice(list(PRESETS)), help="Preset below the configuration."
        ),
        click.option("--environment", metavar="SPEC", help="Another environment."),
        click.option(
            "--device",
            type=click.Choice(["auto", "cpu", "cuda"]),
            default="cpu",
            help="Device of the policy (default cpu).",
        ),
    ]

    def decorated(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorated


def _check_one_of(options: Mapping[str, Any]) -> None:
    """Refuse more or fewer than one of some options."""
    if sum(value is not None for value in options.values()) != 1:
        raise click.UsageError(f"give one of {', '.join(options)}")


def roll_out_steps(args: SimpleNamespace, raw: Mapping[str, Any], *, is_json: bool) -> int:
    """Roll out the step environment of a configuration; return the exit code of the command."""
    _check_one_of(
        {
            "--episodes": args.episodes,
            "--env-steps": args.env_steps,
            "--seconds": args.seconds,
        }
    )
    warn = partial(print_warning, "rollout")
    try:
        changes: dict[str, Any] = {
            "seed": args.seed,
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
            with stopped_by_signals(local.stop) as received:
                try:
                    result = local.run()
                finally:  # all its fragments are written, also if it fails
                    if files is not None:
                        files.close()
        except (RolloutFailed, OSError) as failure:
            warn(failure)
            return 1
    print_figures(msgspec.to_builtins(result), is_json=is_json)
    return SIGNALED + received[0] if received else 0


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[list[int]]:
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


@click.command("policy", cls=ApiCommand)
@click.option("--weights", type=FILE, metavar="FILE", help="Safetensors file.")
@click.option("--run", help="Run on a platform: its configuration and newest published version.")
@config_options("environment, policy, evaluation")
@click.option("--episodes", type=int, help="Number of episodes.")
@click.option("--envs", type=int, help="Environments that step concurrently.")
@click.option("--sampled", is_flag=True, help="Sample the actions.")
@click.option("--version", type=int, metavar="STEP", help="Another published version of --run.")
@click.option(
    "--weights-directory",
    type=FILE,
    metavar="DIR",
    help="Shared weights folder of --run, if it uses one.",
)
def evaluate_policy(state: State, **options: Any) -> int:
    """Evaluate weights of a step policy: of a file, or of a run.

    Exit code 1 if the evaluation failed, 2 for invalid options. Requests to the platform are
    retried for 5 seconds, or for --retry-for.
    """
    args = SimpleNamespace(**options)
    _check_one_of({"--weights": args.weights, "--run": args.run})
    if args.run is not None and (args.config or args.preset):
        raise click.UsageError("--config and --preset need --weights: the run has a configuration")
    if args.run is None and (args.version is not None or args.weights_directory):
        raise click.UsageError("--version and --weights-directory need --run")
    warn = partial(print_warning, "evaluate policy")
    origin: dict[str, Any] = {}
    try:
        if args.run is None:
            raw = read_config(args)
            weights = WeightsRecord(epoch=0, step=0, tensors=_read_weights(args.weights))
        else:
            raw, weights, origin = _read_run(args, state)
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
    print_figures(origin | {name: getattr(window, name) for name in SHOWN}, is_json=state.as_json)
    return 0


def _read_run(
    args: SimpleNamespace, state: State
) -> tuple[dict[str, Any], WeightsRecord, dict[str, Any]]:
    """Return the configuration and the weights of a run, and the version to print.

    Raises:
        RolldeckError: If the platform refuses or is unreachable, or the version does not exist.
        RunHasNoPolicy: If it is a language run or an outside run.
        InvalidMessageError: If the weights are damaged.
        InvalidRunConfig: If this version of the command does not support the configuration.
        OSError: If the shared weights folder cannot be read.
    """
    with state.connected(retry_for=RETRY_SECONDS) as connection:
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


def read_config(args: SimpleNamespace) -> dict[str, Any]:
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


def print_figures(figures: Mapping[str, Any], *, is_json: bool) -> None:
    """Print figures by name, as JSON or one per line."""
    width = max(map(len, figures))
    lines = [f"{name:<{width}}  {_shown(value)}" for name, value in figures.items()]
    sys.stdout.write((json.dumps(figures, indent=2) if is_json else "\n".join(lines)) + "\n")


def _shown(value: object) -> object:
    if isinstance(value, Mapping):
        value = ", ".join(f"{name} {count}" for name, count in value.items())
    return "-" if value in (None, "") else value


def print_warning(command: str, text: object) -> None:
    """Print a line about a command on standard error."""
    sys.stderr.write(f"rolldeck {command}: {text}\n")
