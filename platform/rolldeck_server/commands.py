"""Commands of the server, which the `rolldeck` command finds as entry points."""

from collections.abc import Callable, Sequence
from importlib import import_module

from rolldeck_server import add_source

Words = Sequence[str]


def up(words: Words) -> int:
    """Run all servers in the foreground."""
    return _django("rolldeck", "up", *words)


def demo(words: Words) -> int:
    """Show a policy learning on the whole system."""
    return _django("rolldeck", "demo", *words)


def admin(words: Words) -> int:
    """Run a command of Django, such as `createsuperuser`, `backup` or `login_link`."""
    return _django("rolldeck admin", *words)


def evaluate(words: Words) -> int:
    """Evaluate a checkpoint on lessons."""
    return _main_of("rollouts.fleet.groups.evaluate")(words)


def proxy(words: Words) -> int:
    """Capture the calls of an agent to an inference server."""
    return _main_of("rollouts.fleet.capture.command")(words)


def ray(words: Words) -> int:
    """Run Ray's command line, with the platform's packages importable in the node it starts."""
    add_source()
    try:
        cli = import_module("ray.scripts.scripts")
    except ModuleNotFoundError as error:
        raise SystemExit(_missing("ray", error)) from error
    code: int | None = cli.cli.main(args=list(words), prog_name="rolldeck ray")
    return code or 0


def rollout(words: Words) -> int:
    """Run fragments of a policy into a folder, without a platform."""
    return _main_of("rollouts.fleet.steps.commands", "rollout")(words)


def serve(words: Words) -> int:
    """Serve a language model."""
    return _main_of("rollouts.fleet.engine.serve")(words)


def _django(program: str, *words: str) -> int:
    add_source()
    from config.command_line import run

    run([program, *words])
    return 0


def _main_of(module: str, name: str = "main") -> Callable[[Words], int]:
    """Return the function of a command.

    Raises:
        SystemExit: If a package that the command needs is not installed.
    """
    add_source()
    try:
        found: Callable[[Words], int] = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise SystemExit(_missing(module, error)) from error
    return found


def _missing(module: str, error: ModuleNotFoundError) -> str:
    return (
        f"rolldeck: {module} needs the package {error.name}, which is not installed: "
        "pip install 'rolldeck-server[fleet,language]'"
    )
