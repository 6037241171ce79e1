"""Commands `rolldeck token`: create, list and revoke API tokens."""

import re
from typing import Any, Final

import click

from rolldeck.commands.base import Group, Row, data_command, reason_option, table
from rolldeck.http import Call, Connection

SCOPES: Final = ("admin", "env", "metrics", "read", "trainer", "user", "worker")
SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}

token = Group("token", help="Create, list and revoke API tokens.", no_args_is_help=True)


class _Duration(click.ParamType[int]):
    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds of a text such as ``30d``."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+)([smhd])", value)
        if not match:
            self.fail(f"{value!r} is not a duration such as 30d, 12h, 45m or 90s", param, ctx)
        return int(match[1]) * SECONDS[match[2]]


@data_command(token, "create", lambda created: str(created["token"]))
@click.option("--name", required=True, help="Shown in lists and in the audit log.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    required=True,
    help="What the token permits; repeatable.",
)
@click.option("--run", metavar="RUN", help="Only for this run (default: for all).")
@click.option("--expires", type=_Duration(), help="Such as 30d or 12h (default: never).")
@click.option("--network", "networks", multiple=True, help="Only from this network; repeatable.")
def create(
    connection: Connection,
    name: str,
    scopes: tuple[str, ...],
    run: str | None,
    expires: int | None,
    networks: tuple[str, ...],
) -> object:
    """Create a token and print its secret, which is not shown again."""
    body: Row = {"name": name, "scopes": [*scopes], "networks": [*networks]}
    body |= {"run": run} if run else {}
    body |= {"expires_in_seconds": expires} if expires else {}
    return connection.json(Call(method="POST", path="/api/v1/tokens", json=body))


def _tokens_table(tokens: list[Row]) -> str:
    columns = ["id", "name", "prefix", "scopes", "run", "created_by", "expires_at", "revoked_at"]
    rows = [row | {"scopes": ",".join(row["scopes"])} for row in tokens]
    return table(columns, rows, "no tokens")


@data_command(token, "ls", _tokens_table)
def list_tokens(connection: Connection) -> object:
    """List tokens, newest first, without their secrets."""
    return list(connection.rows("/api/v1/tokens"))


@data_command(token, "revoke", lambda revoked: f"token {revoked['id']} is revoked")
@click.argument("number", metavar="ID", type=click.IntRange(1))
@reason_option
def revoke(connection: Connection, number: int, reason: str) -> object:
    """Revoke a token at once."""
    params = {"reason": reason} if reason else None
    answer = connection.json(Call(method="DELETE", path=f"/api/v1/tokens/{number}", params=params))
    return answer or {"id": number}
