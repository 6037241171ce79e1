"""Have the platform keep captured calls."""

import threading
from typing import Protocol
from urllib.parse import quote

import msgspec

from rolldeck.captures import CallPush
from rolldeck.errors import RolldeckError
from rolldeck.http import Call, Connection


class NotKept(Exception):
    """The platform did not keep a call; `status` is that of the answer to the agent."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class Keeper(Protocol):
    """Takes captured calls; threads may share it."""

    kept: int
    """Calls ever."""

    def keep(self, session: str, call: CallPush) -> None:
        """Keep a call, durably.

        Raises:
            NotKept: If it could not be kept.
        """

    def close(self) -> None:
        """Close what was opened."""


class PlatformKeeper:
    """Hands calls to the platform, again and again through short outages: their keys are theirs."""

    def __init__(self, connection: Connection, run: str) -> None:
        """Hand over calls of one run.

        Args:
            connection: To the platform, with a token of the scope `env` or `worker`.
            run: Its name.
        """
        self.kept = 0
        self._connection = connection
        self._path = f"/api/runs/{quote(run, safe='')}/captures"
        self._lock = threading.Lock()

    def keep(self, session: str, call: CallPush) -> None:
        """Keep a call; returns once it is in the database."""
        push = Call(
            method="POST",
            path=f"{self._path}/{session}/calls",
            content=msgspec.json.encode(call),
            content_type="application/json",
            is_repeatable=True,
        )
        try:
            self._connection.send(push)
        except RolldeckError as failure:
            status = getattr(failure, "status", None)
            is_theirs = isinstance(status, int) and 400 <= status < 500
            text = f"the platform did not keep the call: {failure}"
            raise NotKept(text, status=409 if is_theirs else 503) from failure
        with self._lock:
            self.kept += 1

    def close(self) -> None:
        """Close the sockets."""
        self._connection.close()
