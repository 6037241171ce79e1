"""Command `rolldeck api`: send any request to the platform's API."""

import json
import sys
from pathlib import Path
from typing import Any, Final

import click

from rolldeck.commands.base import ApiCommand, State
from rolldeck.http import Call

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
ASKING: Final = frozenset({"GET", "DELETE"})
"""Methods whose fields are sent in the query; other methods send a JSON object."""


class _Field(click.ParamType[tuple[str, Any]]):
    name = "FIELD=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Any]:
        """Return the name and the value."""
        if isinstance(value, tuple):
            return value
        name, has_value, text = value.partition("=")
        if not has_value or not name:
            self.fail(f"{value!r} is not FIELD=VALUE", param, ctx)
        try:
            return name, json.loads(text)
        except json.JSONDecodeError:
            return name, text


class _Body(click.ParamType[Any]):
    name = "JSON"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the decoded body."""
        if not isinstance(value, str):
            return value
        try:
            if value == "-":
                return json.load(sys.stdin)
            return json.loads(Path(value[1:]).read_text("utf-8") if value[:1] == "@" else value)
        except (OSError, ValueError) as error:
            self.fail(f"{value!r} is not JSON: {error}", param, ctx)


@click.command("api", cls=ApiCommand)
@click.argument("method", type=click.Choice(METHODS, case_sensitive=False), metavar="METHOD")
@click.argument("path", metavar="PATH")
@click.argument("fields", nargs=-1, type=_Field(), metavar="[FIELD=VALUE]...")
@click.option("--body", type=_Body(), help="Whole body; @FILE reads a file, - reads stdin.")
def api(
    state: State, method: str, path: str, fields: tuple[tuple[str, Any], ...], body: Any
) -> None:
    """Send any request to the API, and print the answer as JSON.

    PATH is a path below /api/v1, such as runs/demo/pause. A field belongs to the body, or to the
    query of GET and DELETE; VALUE is JSON if it is valid, else text.
    """
    place = "/api/v1/" + path.lstrip("/").removeprefix("api/v1/")
    if method in ASKING and body is None:
        query = {
            name: value if isinstance(value, str) else json.dumps(value) for name, value in fields
        }
        call = Call(method=method, path=place, params=query or None)
    elif body is None or isinstance(body, dict):
        call = Call(method=method, path=place, json=(body or {}) | dict(fields))
    elif fields:
        raise click.UsageError("fields need a JSON object as body")
    else:
        call = Call(method=method, path=place, json=body)
    with state.connected() as connection:
        click.echo(json.dumps(connection.json(call), indent=2))
