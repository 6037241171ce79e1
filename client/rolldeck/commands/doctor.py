"""Command `rolldeck doctor`: check the client, the server and its parts."""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

import click

from rolldeck.commands.base import ApiCommand, Row, State, aligned
from rolldeck.errors import RolldeckError, UnreachableError
from rolldeck.http import Call, Connection
from rolldeck.versions import difference

MAX_CLOCK_SECONDS: Final = 5.0
"""Largest difference of the clocks that is no warning; expiries and dates are compared."""
LOW_DISK_SHARE: Final = 0.1
GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    check: str
    result: Literal["ok", "warning", "failed"]
    message: str
    remedy: str = ""


@click.command("doctor", cls=ApiCommand)
def doctor(state: State) -> int:
    """Check server, versions, database, Redis, Ray, disk and clock; name the remedies.

    Exit code 1 if a check failed.
    """
    with (
        state.connected() as connection,
        state.connected(connection.url, "") as without_token,
    ):
        findings = [*_findings(connection, without_token)]
    state.print([asdict(finding) for finding in findings], _shown)
    return int(any(finding.result == "failed" for finding in findings))


def _shown(rows: list[Row]) -> str:
    lines = aligned([[row["result"], row["check"], row["message"]] for row in rows])
    return "\n".join(
        line + (f"\n         {row['remedy']}" if row["remedy"] else "")
        for line, row in zip(lines, rows, strict=True)
    )


def _findings(connection: Connection, without_token: Connection) -> Iterator[Finding]:
    try:
        began = time.perf_counter()
        without_token.json(Call(method="GET", path="/healthz/live"))
        took_ms = (time.perf_counter() - began) * 1000
    except RolldeckError as error:
        yield _unreachable(connection.url, error)
        return
    yield Finding("server", "ok", f"{connection.url} answers within {took_ms:.0f} ms")
    yield _readiness(without_token)
    try:
        server = connection.json(Call(method="GET", path="/api/v1/server"))
        yield _versions(server["version"])
        before = datetime.now(UTC)
        cluster = connection.json(Call(method="GET", path="/api/v1/cluster", wait_seconds=5))
    except RolldeckError as error:
        remedy = "Run `rolldeck login`, or set ROLLDECK_TOKEN to a token with the scope read."
        yield Finding("token", "failed", error.detail, remedy)
        return
    middle = before + (datetime.now(UTC) - before) / 2
    yield Finding("token", "ok", "the server accepts it")
    yield _clock(cluster["at"], middle)
    yield _part("database", cluster["database"], "Start PostgreSQL, or correct DATABASE_URL.")
    yield _part("Redis", cluster["broker"], "Start Redis or Valkey, or correct REDIS_URL.")
    yield _part("jobs", cluster["jobs"], "Start the job workers: `rolldeck up`, or celery worker.")
    yield _part("Ray", cluster["ray"], "Start Ray, or correct RAY_ADDRESS; buffers need none.")
    yield _disk(cluster["storage"])


def _unreachable(url: str, error: RolldeckError) -> Finding:
    if isinstance(error, UnreachableError):
        remedy = "Start the server with `rolldeck up`, or set ROLLDECK_URL to its address."
        return Finding("server", "failed", error.detail, remedy)
    remedy = "Set ROLLDECK_URL to the address of a Rolldeck server; a proxy may answer instead."
    return Finding("server", "failed", f"{url} answers, but not as a server: {error}", remedy)


def _versions(server: str) -> Finding:
    if (found := difference(server)) is None:
        return Finding("versions", "ok", f"client and server are {server}")
    return Finding("versions", "warning", *found)


def _readiness(connection: Connection) -> Finding:
    try:
        connection.json(Call(method="GET", path="/healthz/ready"))
    except RolldeckError as error:
        return Finding("ready", "failed", error.detail, "The server's log has the reason.")
    return Finding("ready", "ok", "the server accepts requests")


def _clock(server: str, here: datetime) -> Finding:
    seconds = (datetime.fromisoformat(server) - here).total_seconds()
    if abs(seconds) <= MAX_CLOCK_SECONDS:
        return Finding("clock", "ok", f"the server's clock differs by {abs(seconds):.1f} s")
    side = "ahead of" if seconds > 0 else "behind"
    message = f"the server's clock is {abs(seconds):,.0f} s {side} this machine's"
    return Finding("clock", "warning", message, "Synchronise both with NTP: timedatectl status.")


def _part(name: str, part: Row, remedy: str) -> Finding:
    if part["state"] == "up":
        version = f" {part['version']}" if part.get("version") else ""
        took = f", {part['took_ms']:.0f} ms" if part.get("took_ms") is not None else ""
        return Finding(name, "ok", f"up{version}{took}")
    if part["state"] == "absent":
        return Finding(name, "ok", "not used by this server")
    result: Any = "failed" if part["state"] == "down" else "warning"
    problem = " ".join(part["problem"].split())
    return Finding(name, result, f"{part['state']}: {problem}".rstrip(": "), remedy)


def _disk(storage: Row) -> Finding:
    if storage["state"] != "up":
        return _part("disk", storage, "Check the data folder, or the bucket and its credentials.")
    free, total = storage.get("free_bytes"), storage.get("total_bytes")
    if free is None:
        return Finding("disk", "ok", f"{storage['kind']}, without a limit")
    message = f"{free / GIB:,.1f} GiB free" + (f" of {total / GIB:,.1f}" if total else "")
    remedy = "Free space, or lower the retention of runs on the page of each run."
    if free <= storage["keep_free_bytes"]:
        kept = f"; pushes are refused below {storage['keep_free_bytes'] / GIB:,.1f} GiB"
        return Finding("disk", "failed", message + kept, remedy)
    if total and free < total * LOW_DISK_SHARE:
        return Finding("disk", "warning", message, remedy)
    return Finding("disk", "ok", message)
