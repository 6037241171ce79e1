"""Commands of the server, which the `rolldeck` command imports when they are used."""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

import click

from rolldeck.commands.base import Failure
from rolldeck_server import add_source

Words = Sequence[str]
PASSED_ON: Final = {"ignore_unknown_options": True, "help_option_names": []}
"""Settings of a command whose arguments another program reads."""


@click.command()
@click.option(
    "--only",
    type=click.Choice(["buffer"]),
    help="Start no Ray: environments and trainers run elsewhere, and need no torch here.",
)
def up(only: str | None) -> None:
    """Run all servers in the foreground: database, broker, Ray, web server and jobs."""
    _django("rolldeck", "up", *(["--only", only] if only else []))


@click.command()
@click.argument("demo", type=click.Choice(["cartpole", "grpo"]), default="cartpole")
@click.option("--exit", "exits", is_flag=True, help="End at the target (exit code 0) or limit (1).")
@click.option(
    "--limit-seconds",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Time limit to reach the target; default 600 (cartpole) or 1200 (grpo).",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run configuration (JSON) instead of the preset.",
)
def demo(demo: str, exits: bool, limit_seconds: float | None, config: Path | None) -> None:
    """Start a server, launch a run, train it, and show the progress.

    The demo is cartpole (PPO), or grpo (lessons in text).
    """
    words = [demo, *(["--exit"] if exits else [])]
    words += ["--limit-seconds", str(limit_seconds)] if limit_seconds is not None else []
    words += ["--config", str(config)] if config else []
    _django("rolldeck", "demo", *words)


@click.command(context_settings=PASSED_ON)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [ARGS]...")
def admin(words: Words) -> None:
    """Run an administration command, such as `createsuperuser`, `backup` or `login_link`."""
    _django("rolldeck admin", *words)


@click.command(context_settings=PASSED_ON)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def ray(words: Words) -> int:
    """Run Ray's command line, with the platform's packages importable in the node it starts."""
    add_source()
    try:
        cli = import_module(import_module("rollouts.fleet.ray_internals").COMMAND_LINE)
    except ModuleNotFoundError as error:
        raise _missing("ray", error) from error
    code: int | None = cli.cli.main(args=list(words), prog_name="rolldeck ray")
    return code or 0


@click.command(context_settings=PASSED_ON)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def evaluate(words: Words) -> int:
    """Evaluate a checkpoint on lessons; `evaluate policy` evaluates weights of a step policy."""
    if words[:1] == ("policy",):
        return _main_of("rollouts.fleet.steps.commands", "evaluate_policy")(words[1:])
    return _main_of("rollouts.fleet.groups.evaluate")(words)


@click.command(context_settings=PASSED_ON)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def proxy(words: Words) -> int:
    """Capture the calls of an agent to an inference server."""
    return _main_of("rollouts.fleet.capture.command")(words)


@click.command(context_settings=PASSED_ON)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def rollout(words: Words) -> int:
    """Run fragments of a policy into a folder, without a platform."""
    return _main_of("rollouts.fleet.steps.commands", "rollout")(words)


@click.command(context_settings=PASSED_ON)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def inference(words: Words) -> int:
    """Serve a language model that follows the weights of a run."""
    return _main_of("rollouts.fleet.engine.serve")(words)


def _django(program: str, *words: str) -> None:
    add_source()
    from config.command_line import run

    run([program, *words])


def _main_of(module: str, name: str = "main") -> Callable[[Words], int]:
    """Return the function of a command.

    Raises:
        Failure: If a package that the command needs is not installed.
    """
    add_source()
    try:
        found: Callable[[Words], int] = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise _missing(module, error) from error
    return found


def _missing(module: str, error: ModuleNotFoundError) -> Failure:
    return Failure(
        f"{module} needs the package {error.name}, which is not installed: "
        "pip install 'rolldeck-server[fleet,language]'"
    )
