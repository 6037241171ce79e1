"""The `rolldeck` command."""

import os
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Final

import click

from rolldeck import __version__
from rolldeck.commands.base import Group, Lazy, State, shared_options, take_shared
from rolldeck.errors import RolldeckError, UnreachableError

INTERRUPTED: Final = 128 + signal.SIGINT
READER_ENDED: Final = 128 + signal.SIGPIPE
CLIENT: Final = "Runs and their data"
HERE: Final = "This machine"
SERVER: Final = "Server"
COMMANDS: Final = {
    "run": Lazy("rolldeck.commands.run:run", "Create, watch and control runs.", CLIENT),
    "archive": Lazy(
        "rolldeck.commands.archive:archive",
        "Export items of a run to Parquet, and use the files.",
        CLIENT,
    ),
    "token": Lazy("rolldeck.commands.token:token", "Create, list and revoke API tokens.", CLIENT),
    "api": Lazy("rolldeck.commands.api:api", "Send any request to the API.", CLIENT),
    "chaos": Lazy(
        "rolldeck.commands.chaos:chaos", "Test a platform under faults of the network.", CLIENT
    ),
    "open": Lazy(
        "rolldeck.commands.account:open_run", "Open the page of a run in a browser.", CLIENT
    ),
    "login": Lazy("rolldeck.commands.account:login", "Store URL and token of a platform.", HERE),
    "doctor": Lazy(
        "rolldeck.commands.doctor:doctor", "Check the server and its parts; name remedies.", HERE
    ),
    "completion": Lazy(
        "rolldeck.commands.account:completion", "Print the completion script of a shell.", HERE
    ),
}
SERVER_COMMANDS: Final = {
    "up": "Run all servers in the foreground.",
    "demo": "Show a policy that learns on the whole system.",
    "admin": "Administer the server: createsuperuser, login_link, backup, …",
    "ray": "Run Ray's command line for nodes of a cluster.",
    "inference": "Serve a language model that follows the weights of a run.",
    "proxy": "Capture the calls of an agent to an inference server.",
    "rollout": "Run rollouts of a step environment or of lessons without a platform.",
    "evaluate": "Evaluate a checkpoint or weights without a platform.",
}
"""Commands of the distribution `rolldeck-server`, which has the equal version."""


def _of_server(name: str) -> Lazy:
    module = "rolldeck_server" if find_spec("rolldeck_server") else "rolldeck.cli"
    path = f"{module}.commands:{name}" if module == "rolldeck_server" else f"{module}:absent"
    return Lazy(path, SERVER_COMMANDS[name], SERVER)


class _Root(Group):
    """The command with its options, which may also follow a command."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; the end of the output's reader, such as `head`, ends it."""
        take_shared(ctx)
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Buffered output is discarded.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return READER_ENDED
        return answer

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; for the former name of one, an error with the new name."""
        if cmd_name == "serve":
            raise click.UsageError("`serve` is now `rolldeck inference`", ctx)
        return super().get_command(ctx, cmd_name)


@click.pass_context
def _absent(ctx: click.Context) -> None:
    raise click.UsageError(
        f"`{ctx.info_name}` is a command of the server, which is not installed: "
        "pip install 'rolldeck[server]', or 'rolldeck[buffer]' without Ray and torch",
        ctx.parent,
    )


absent: Final = click.Command(
    "absent",
    callback=_absent,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
"""A command of the server on a machine without it."""


def root() -> Group:
    """Return the command with all subcommands."""
    command = _Root(
        "rolldeck",
        lazy=COMMANDS | {name: _of_server(name) for name in SERVER_COMMANDS},
        params=shared_options(),
        help="Create, watch and control reinforcement-learning rollouts on a Rolldeck platform.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    return click.version_option(__version__, prog_name="rolldeck", message="%(prog)s %(version)s")(
        command
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 for success, 1 if it failed, 2 for invalid usage, 130 after Ctrl-C, 141 if the reader of
        the output has ended.
    """
    try:
        answer = root().main(argv, prog_name="rolldeck", standalone_mode=False, obj=State())
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "rolldeck"
        text = " ".join(error.format_message().split())
        click.echo(f"{path}: {text} (see `{path} --help`)", err=True)
        return 2
    except click.ClickException as error:
        click.echo(_prefixed(error.format_message()), err=True)
        return 1
    except (RolldeckError, OSError) as error:
        click.echo(_prefixed(_line(error)), err=True)
        return 1
    return answer if isinstance(answer, int) else 0


def _prefixed(text: str) -> str:
    return "\n".join(f"rolldeck: {line}" for line in text.splitlines())


def _line(error: Exception) -> str:
    if isinstance(error, UnreachableError):
        return f"{error.detail}; start it with `rolldeck up`, or set ROLLDECK_URL"
    return " ".join(str(error).split())


if __name__ == "__main__":
    sys.exit(main())
