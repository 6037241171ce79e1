"""Commands `rolldeck login`, `open` and `completion`."""

import os
import sys
from typing import Final
from urllib.parse import quote

import click
from click.shell_completion import get_completion_class

from rolldeck.commands.base import ApiCommand, Failure, State, run_argument
from rolldeck.commands.run import path_of
from rolldeck.errors import NotAuthenticatedError
from rolldeck.http import Call
from rolldeck.profiles import DEFAULT_URL, Profile, store_profile

SHELLS: Final = ("bash", "zsh", "fish")


@click.command("login", cls=ApiCommand)
def login(state: State) -> None:
    """Store URL and token of a platform in a profile, after a check.

    The token is asked for, or read from a pipe. Commands and the client use the profile unless
    ROLLDECK_URL and ROLLDECK_TOKEN, or arguments, name others.
    """
    url = (state.url or os.environ.get("ROLLDECK_URL") or DEFAULT_URL).rstrip("/")
    # Without a token and the profile, which may be broken; an unreachable server is named at once.
    with state.connected(url, "") as connection:
        connection.json(Call(method="GET", path="/healthz/live"))
    token = state.token
    if not token and sys.stdin.isatty():
        click.echo(f"Create a token at {url}/tokens", err=True)
        token = click.prompt("Token", hide_input=True, err=True)
    elif not token:
        click.echo(f"Create a token at {url}/tokens", err=True)
        token = sys.stdin.readline()
    token = token.strip()
    if not token:
        raise Failure("no token was given")
    with state.connected(url, token) as connection:
        try:
            version = connection.json(Call(method="GET", path="/api/v1/server"))["version"]
        except NotAuthenticatedError as error:
            raise Failure(f"{url} does not accept this token; nothing was stored") from error
    path = store_profile(Profile(url, token))
    row = {"url": url, "version": version, "profile": str(path)}
    state.print(row, lambda _: f"Signed in to {url} (version {version}); stored in {path}")


@click.command("open", cls=ApiCommand)
@run_argument
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def open_run(state: State, run: str, no_browser: bool) -> None:
    """Print the address of a run's page, and open it in a browser."""
    with state.connected() as connection:
        connection.json(Call(method="GET", path=path_of(run)))
        address = f"{connection.url}/runs/{quote(run, safe='')}"
    state.print({"url": address}, lambda row: str(row["url"]))
    has_display = sys.platform in {"darwin", "win32"} or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    if has_display and not no_browser and not state.as_json:
        click.launch(address)


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    For bash: eval "$(rolldeck completion bash)" in ~/.bashrc.
    """
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, "rolldeck", "_ROLLDECK_COMPLETE").source())
