"""Shared parts of the commands: groups, options of a connection, and printed answers."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from gettext import ngettext
from importlib import import_module
from math import isnan
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import click

from rolldeck.errors import RolldeckError
from rolldeck.profiles import DEFAULT_URL

if TYPE_CHECKING:
    from rolldeck.http import Connection

Row = dict[str, Any]


class Failure(click.ClickException):
    """The command failed; the message is one line."""


@dataclass
class State:
    """Options that precede or follow a command."""

    url: str | None = None
    token: str | None = None
    as_json: bool = False
    retry_for: float | None = None

    def update(self, given: Mapping[str, Any]) -> None:
        """Replace the options that were given."""
        for name, value in given.items():
            if value is not None and value is not False:
                setattr(self, name, value)

    def connected(
        self, url: str | None = None, token: str | None = None, *, retry_for: float = 0.0
    ) -> "Connection":
        """Return a connection to the platform.

        Args:
            url: URL in place of that of the options.
            token: Token in place of that of the options; empty for none.
            retry_for: Default of the option.
        """
        from rolldeck.http import Connection  # not imported for --help

        seconds = retry_for if self.retry_for is None else self.retry_for
        token = self.token if token is None else token
        return Connection(url or self.url, token, retry_for_seconds=seconds)

    def print(self, answer: object, shown: Callable[[Any], str]) -> None:
        """Print an answer as JSON or as text."""
        click.echo(json.dumps(answer, indent=2) if self.as_json else shown(answer))


SHARED: Final = ("url", "token", "as_json", "retry_for")


def shared_options(names: Sequence[str] = SHARED) -> list[click.Parameter]:
    """Return the options of a connection, or those with some names."""
    options = [
        click.Option(["--url"], help=f"URL of the platform (ROLLDECK_URL; default {DEFAULT_URL})."),
        click.Option(["--token"], help="An API token (ROLLDECK_TOKEN)."),
        click.Option(["--json", "as_json"], is_flag=True, help="Print the answer as JSON."),
        click.Option(
            ["--retry-for"],
            type=click.FloatRange(0),
            metavar="SECONDS",
            help="Time to retry a failed request (default 0).",
        ),
    ]
    return [option for option in options if option.name in names]


def take_shared(context: click.Context) -> State:
    """Move the options of a connection from the parameters to the state of the command."""
    state = context.find_object(State)
    if state is None:
        state = context.find_root().obj = State()
    state.update({name: context.params.pop(name, None) for name in SHARED})
    return state


class Number(click.FloatRange):
    """A number in a range; nan is in none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number of a text."""
        number = float(super().convert(value, param, ctx))
        if isnan(number):
            self.fail("nan is not a number", param, ctx)
        return number


class ApiCommand(click.Command):
    """A command that takes a `State` and prints by itself."""

    shared: ClassVar[Sequence[str]] = SHARED
    """Names of its options of a connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += shared_options(self.shared)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command with the options of its connection."""
        state = take_shared(ctx)
        assert self.callback is not None  # noqa: S101
        return ctx.invoke(self.callback, state, **ctx.params)


class LocalCommand(ApiCommand):
    """A command that needs no platform."""

    shared = ("as_json",)


def data_command(
    group: click.Group | None,
    name: str,
    shown: Callable[[Any], str],
    *,
    fails: Callable[[Any], bool] = lambda _: False,
) -> Callable[[Callable[..., object]], click.Command]:
    """Return a decorator for a function of a connection whose answer is printed.

    Args:
        group: Group of the command; None for a command that a group imports late.
        name: Name in the group.
        shown: Text of an answer.
        fails: Whether an answer ends the command with exit code 1.
    """

    def decorated(function: Callable[..., object]) -> click.Command:
        def run(state: State, /, **words: Any) -> int:
            with state.connected() as connection:
                answer = function(connection, **words)
            state.print(answer, shown)
            return int(fails(answer))

        run.__doc__ = function.__doc__
        # Decorators add parameters from the last to the first.
        parameters = getattr(function, "__click_params__", [])[::-1]
        made = click.command(name, cls=ApiCommand, params=parameters)(run)
        if group is not None:
            group.add_command(made)
        return made

    return decorated


class Lazy(NamedTuple):
    """A command that is imported when it is used."""

    path: str
    """``module:name``."""
    summary: str
    section: str = "Commands"


class Group(click.Group):
    """A group that names the nearest command for an unknown one, and imports commands late."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of their definition."""
        del ctx
        return [*self.commands, *self.lazy]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, after importing its module."""
        if cmd_name in self.lazy:
            module, _, name = self.lazy[cmd_name].path.partition(":")
            found: click.Command = getattr(import_module(module), name)
            return found
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names.

        Raises:
            UsageError: If there is none.
        """
        word = args[0]
        if self.get_command(ctx, word) is None and not word.startswith("-"):
            near = get_close_matches(word, self.list_commands(ctx), n=3, cutoff=0.5)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(f"No such command {word!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section, without importing them."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            if name in self.lazy:
                lazy = self.lazy[name]
                sections.setdefault(lazy.section, []).append((name, lazy.summary))
            elif not self.commands[name].hidden:
                summary = self.commands[name].get_short_help_str(100)
                sections.setdefault("Commands", []).append((name, summary))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def complete_run(context: click.Context, _: click.Parameter, begin: str) -> list[str]:
    """Return the names of the newest runs that begin with a text; none without a server."""
    from rolldeck.http import Connection

    state = context.find_object(State) or State()
    try:
        with Connection(
            state.url, state.token, retry_for_seconds=0, timeout_seconds=1
        ) as connection:
            page = connection.rows("/api/v1/runs", {"limit": 100})
            names = [str(run["name"]) for run, _ in zip(page, range(100), strict=False)]
    except (RolldeckError, OSError):
        return []
    return [name for name in names if name.startswith(begin)]


run_argument = click.argument("run", metavar="RUN", shell_complete=complete_run)
reason_option = click.option("--reason", default="", help="Reason for the audit log.")


def table(columns: Sequence[str], rows: Iterable[Mapping[str, object]], none: str) -> str:
    """Return rows below their column names, or a text if there are none."""
    cells = [["" if row.get(name) is None else str(row[name]) for name in columns] for row in rows]
    if not cells:
        return none
    return "\n".join(aligned([list(columns), *cells]))


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines whose cells stand below each other."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def counted(number: int, one: str, several: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {ngettext(one, several, number)}"
