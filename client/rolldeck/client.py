"""Client of a platform: create, watch and control its runs."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import quote

from rolldeck.closing import Closing
from rolldeck.errors import NotFoundError, RunOverError
from rolldeck.http import Call, Connection

ENDED: Final = frozenset({"completed", "stopped", "failed"})
"""Statuses of a run that has ended."""
LOG_LINES: Final = 1_000
"""Newest lines of a log that one request reads."""
POLL_SECONDS: Final = 1.0
Row = dict[str, Any]
RunKind = Literal["fleet", "outside"]


class Client(Closing):
    """Client of one platform, with the rights of one token; thread-safe.

    ::

        with Client() as client:  # of ROLLDECK_URL and ROLLDECK_TOKEN
            run = client.runs.create("pole-1", preset="cartpole")
            run.wait(until="completed")
            print(run.metrics("rolldeck/reward/mean"))
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retry_for_seconds: float = 120.0,
        connection: Connection | None = None,
    ) -> None:
        """Configure the client without sending a request.

        Args:
            url: URL of the platform; ``ROLLDECK_URL`` by default.
            token: An API token; ``ROLLDECK_TOKEN`` by default.
            retry_for_seconds: Maximum time from the first to the last attempt of a call.
            connection: Existing connection to use; `close` leaves it open.
        """
        self._owns_connection = connection is None
        self.connection = connection or Connection(url, token, retry_for_seconds=retry_for_seconds)
        self.runs = Runs(self.connection)

    def close(self) -> None:
        """Close the sockets of its own connection."""
        if self._owns_connection:
            self.connection.close()


class Runs:
    """Runs of a platform."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(
        self,
        name: str,
        *,
        kind: RunKind = "fleet",
        preset: str | None = None,
        config: Mapping[str, Any] | None = None,
        project: str | None = None,
        tags: Sequence[str] = (),
        start: bool = True,
    ) -> "Run":
        """Create a run, and start it.

        Args:
            name: Letters, digits, ``-`` and ``_``; unique among the runs that are not archived.
            kind: ``fleet`` for rollouts on Ray, ``outside`` for environments that push groups.
            preset: Preset of a fleet run; that of the project by default.
            config: Fields merged over the preset and the project.
            project: Project of the run, whose defaults apply.
            tags: Tags of the run.
            start: Whether to start it.

        Raises:
            InvalidRequestError: If a field is invalid; `errors` name it.
            ConflictError: If a run of this name exists.
        """
        given = {
            "kind": kind,
            "preset": preset,
            "config": None if config is None else dict(config),
            "project": project,
            "tags": list(tags) or None,
        }
        body = {"name": name, "start": start}
        body |= {field: value for field, value in given.items() if value is not None}
        return self._run(self._connection.json(Call(method="POST", path="/api/v1/runs", json=body)))

    def get(self, name: str) -> "Run":
        """Return a run.

        Raises:
            NotFoundError: If no run has this name.
        """
        return self._run(self._connection.json(Call(method="GET", path=_path(name))))

    def list(self, q: str = "") -> Iterator["Run"]:
        """Yield the runs that match a filter such as ``is:active tag:baseline``, newest first."""
        for row in self._connection.rows("/api/v1/runs", {"q": q} if q else None):
            yield self._run(row)

    def _run(self, row: Row) -> "Run":
        return Run(self._connection, row)


class Run:
    """A run as of the last response about it; `refresh` reads it again.

    Attributes:
        row: Its fields, as ``GET /api/v1/runs/{run}`` returns them; of a list, fewer.
    """

    def __init__(self, connection: Connection, row: Row) -> None:
        self._connection = connection
        self.row = row

    def __repr__(self) -> str:
        return f"<Run {self.name}: {self.status}>"

    @property
    def name(self) -> str:
        """Name, unique among the runs that are not archived."""
        return str(self.row["name"])

    @property
    def status(self) -> str:
        """Status: ``draft``, ``queued``, ``starting``, ``running``, ``paused``, ``draining``,
        ``completed``, ``stopped`` or ``failed``.
        """  # noqa: D205 one list
        return str(self.row["status"])

    def refresh(self) -> "Run":
        """Read the run again, and return it."""
        self.row = self._connection.json(Call(method="GET", path=_path(self.name)))
        return self

    def start(self, reason: str = "") -> "Run":
        """Start the run, or restart a stopped or failed one."""
        return self._act("start", reason)

    def pause(self, reason: str = "") -> "Run":
        """Pause rollouts; queued data can still be trained on."""
        return self._act("pause", reason)

    def resume(self, reason: str = "") -> "Run":
        """Resume rollouts."""
        return self._act("resume", reason)

    def drain(self, reason: str = "") -> "Run":
        """Stop rollouts, serve the queued data, then complete."""
        return self._act("drain", reason)

    def stop(self, reason: str = "") -> "Run":
        """Drain with a deadline, then stop."""
        return self._act("stop", reason)

    def kill(self, reason: str = "") -> "Run":
        """End the fleet immediately."""
        return self._act("kill", reason)

    def delete(self, reason: str) -> Row:
        """Delete the run with all its data, and return the deletion.

        The run disappears at once and its name is free; the server removes rows and bytes in the
        background. ``GET /api/v1/deletions`` has the progress.

        Args:
            reason: Recorded in the audit log.

        Raises:
            ConflictError: If the run is active.
        """
        call = Call(method="DELETE", path=_path(self.name), params={"reason": reason})
        deletion: Row = self._connection.json(call)
        return deletion

    def wait(
        self,
        until: str | Collection[str] = ENDED,
        *,
        timeout_seconds: float | None = None,
        poll_seconds: float = POLL_SECONDS,
    ) -> "Run":
        """Wait for a status, and return the run.

        Args:
            until: Status, or statuses, to wait for; by default until the run has ended.
            timeout_seconds: Longest wait; None for no limit.
            poll_seconds: Interval between two requests.

        Raises:
            RunOverError: If the run ends with another status.
            TimeoutError: If the status is not reached in time.
        """
        wanted = {until} if isinstance(until, str) else set(until)
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while self.refresh().status not in wanted:
            if self.status in ENDED:
                reason = self.row.get("status_reason")
                detail = f"run {self.name} is {self.status}" + (f": {reason}" if reason else "")
                raise RunOverError(status=0, code="run_over", detail=detail)
            if deadline is not None and time.monotonic() + poll_seconds > deadline:
                names = " or ".join(sorted(wanted))
                raise TimeoutError(
                    f"run {self.name} is {self.status}, not {names}, after {timeout_seconds:g} s"
                )
            time.sleep(poll_seconds)
        return self

    def metrics(self, *names: str) -> Iterator[Row]:
        """Yield the stored values of metrics, newest first; of all metrics by default.

        Each has ``name``, ``step``, ``value`` and ``at``.
        """
        query = {"names": ",".join(names)} if names else None
        yield from self._connection.rows(_path(self.name, "/metrics"), query)

    def events(self, *kinds: str) -> Iterator[Row]:
        """Yield the events of the run, newest first; of all kinds by default."""
        query = {"kinds": ",".join(kinds)} if kinds else None
        yield from self._connection.rows(_path(self.name, "/events"), query)

    def logs(
        self,
        *,
        worker: int | None = None,
        slot: int | None = None,
        follow: bool = False,
        poll_seconds: float = POLL_SECONDS,
    ) -> Iterator[str]:
        """Yield the newest 1,000 lines of a log of the fleet.

        Args:
            worker: Index of a worker; by default the manager.
            slot: Env slot of the worker.
            follow: Whether to yield further lines until the run ends.
            poll_seconds: Interval between two requests, if it follows.

        Raises:
            NotFoundError: If the fleet has no such log, or does not answer.
        """
        given = {"worker": worker, "slot": slot}
        query: dict[str, str | int | float] = {"lines": LOG_LINES}
        query |= {name: value for name, value in given.items() if value is not None}
        before: list[str] = []
        while True:
            is_last = not follow or self.refresh().status in ENDED
            call = Call(
                method="GET", path=_path(self.name, "/fleet/logs"), params=query, wait_seconds=10
            )
            log = self._connection.json(call)
            if log["state"] == "read":
                yield from _further(before, log["lines"])
                before = log["lines"]
            elif is_last and not before:
                raise NotFoundError(status=0, code="log_not_read", detail=log["note"])
            if is_last:
                return
            time.sleep(poll_seconds)

    def _act(self, verb: str, reason: str) -> "Run":
        call = Call(method="POST", path=_path(self.name, f"/{verb}"), json={"reason": reason})
        self.row = self._connection.json(call)
        return self


def _path(name: str, rest: str = "") -> str:
    return f"/api/v1/runs/{quote(name, safe='')}{rest}"


def _further(before: list[str], lines: list[str]) -> list[str]:
    """Return the lines after those of an earlier end of the log."""
    for size in range(min(len(before), len(lines)), 0, -1):
        if before[-size:] == lines[:size]:
            return lines[size:]
    return lines
