"""Commands of the server, which the `rolldeck` command imports when they are used."""

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from rolldeck.commands.base import Failure
from rolldeck_server import add_source
from rolldeck_server.completeness import problem_of_installation

Words = Sequence[str]
PASSED_ON: Final = {"ignore_unknown_options": True, "help_option_names": []}
"""Settings of a command whose arguments another program reads."""
OF_PARTS: Final = {
    "inference": "rollouts.fleet.engine.serve:inference",
    "proxy": "rollouts.fleet.capture.command:proxy",
    "rollout": "rollouts.fleet.groups.rollout:rollout",
    "evaluate": "rollouts.fleet.groups.evaluate:evaluate",
}
"""Commands that other modules define, which need packages of the extra `fleet`."""


@click.command()
@click.option(
    "--only",
    type=click.Choice(["buffer"]),
    help="Start no Ray: environments and trainers run elsewhere, and need no torch here.",
)
def up(only: str | None) -> None:
    """Run all servers in the foreground: database, broker, Ray, web server and jobs."""
    _set_up()
    from config.embedded.children import StartFailed
    from config.embedded.supervisor import Supervisor

    try:
        Supervisor(print_line=_print_line, has_fleets=only is None).run()
    except StartFailed as error:
        raise Failure(str(error)) from error


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
    _set_up()
    absent = [name for name in ("ray", "torch", "gymnasium") if find_spec(name) is None]
    if absent:
        raise Failure(f"the demo needs {' and '.join(absent)}: pip install 'rolldeck[server]'")
    given: Any = None
    if config:
        try:
            given = json.loads(config.read_bytes())
        except (OSError, ValueError) as error:
            raise Failure(f"--config: {error}") from error
        if not isinstance(given, dict):
            raise Failure("--config: not a JSON object")
    from rich.console import Console

    from config.demo.show import DEMOS, Demo
    from config.embedded.children import StartFailed
    from runs.config.rules.run_config import InvalidRunConfig

    shown = Demo(DEMOS[demo], Console(), exits=exits, limit_seconds=limit_seconds, config=given)
    try:
        missing = shown.run()
    except (StartFailed, InvalidRunConfig) as error:
        raise Failure(str(error)) from error
    except KeyboardInterrupt:
        return
    if missing:
        raise Failure(f"the demo missed its target: {missing}")


@click.command(context_settings=PASSED_ON)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [ARGS]...")
def admin(words: Words) -> None:
    """Run an administration command, such as `createsuperuser`, `backup` or `login_link`."""
    _django("rolldeck admin", *words)


@click.command(context_settings=PASSED_ON)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def ray(words: Words) -> int:
    """Run Ray's command line, with the platform's packages importable in the node it starts."""
    _add_checked_source()
    try:
        cli = import_module(import_module("rollouts.fleet.ray_internals").COMMAND_LINE)
    except ModuleNotFoundError as error:
        raise _missing("ray", error) from error
    code: int | None = cli.cli.main(args=list(words), prog_name="rolldeck ray")
    return code or 0


def _set_up() -> None:
    """Set up Django with the platform's settings.

    Raises:
        Failure: If a setting is invalid, or the installation is half-finished.
    """
    _add_checked_source()
    from config.command_line import set_up
    from config.env import InvalidSetting

    try:
        set_up()
    except InvalidSetting as error:
        raise Failure(str(error)) from error


def _add_checked_source() -> None:
    if problem := problem_of_installation():
        raise Failure(problem)
    add_source()


def _print_line(line: str) -> None:
    click.echo(line)
    sys.stdout.flush()


def _django(program: str, *words: str) -> None:
    _add_checked_source()
    from config.command_line import run

    run([program, *words])


def __getattr__(name: str) -> Any:
    """Return a command of a part of the platform.

    Raises:
        Failure: If a package that the command needs is not installed.
    """
    if name not in OF_PARTS:
        raise AttributeError(name)
    _add_checked_source()
    module, _, command = OF_PARTS[name].partition(":")
    try:
        return getattr(import_module(module), command)
    except ModuleNotFoundError as error:
        raise _missing(f"rolldeck {name}", error) from error


def _missing(module: str, error: ModuleNotFoundError) -> Failure:
    return Failure(
        f"{module} needs the package {error.name}, which is not installed: "
        "pip install 'rolldeck-server[fleet,language]'"
    )
