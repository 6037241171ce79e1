"""Storage of captured calls on the platform."""

import threading
from typing import Any, Final, Protocol
from urllib.parse import quote

import msgspec

from rolldeck.captures import CallPush
from rolldeck.errors import RolldeckError
from rolldeck.http import Call, Connection

NUL: Final = "\x00"
SHOWN_NUL: Final = "\ufffd"


class CallNotStored(Exception):
    """The platform did not store a call; `status` is the status of the response to the agent."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class CallStore(Protocol):
    """Storage for captured calls; thread-safe."""

    saved: int
    """Total number of stored calls."""

    def save(self, session: str, call: CallPush) -> None:
        """Store a call durably.

        Raises:
            CallNotStored: If it could not be stored.
        """

    def close(self) -> None:
        """Close all connections."""


class PlatformCallStore:
    """Stores calls on the platform; calls have keys, so retries during short outages are safe."""

    def __init__(self, connection: Connection, run: str) -> None:
        """Set up storage for one run.

        Args:
            connection: Connection to the platform, with a token of the scope `env` or `worker`.
            run: Name of the run.
        """
        self.saved = 0
        self._connection = connection
        self._path = f"/api/v1/runs/{quote(run, safe='')}/captures"
        self._lock = threading.Lock()

    def save(self, session: str, call: CallPush) -> None:
        """Store a call; returns once it is in the database."""
        push = Call(
            method="POST",
            path=f"{self._path}/{session}/calls",
            content=_encoded(call),
            content_type="application/json",
            is_repeatable=True,
        )
        try:
            self._connection.send(push)
        except RolldeckError as failure:
            status = getattr(failure, "status", None)
            is_theirs = isinstance(status, int) and 400 <= status < 500
            text = f"the platform did not store the call: {failure}"
            raise CallNotStored(text, status=409 if is_theirs else 503) from failure
        with self._lock:
            self.saved += 1

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()


def _encoded(call: CallPush) -> bytes:
    """Return a call as JSON; texts have no NUL characters, which the platform does not store."""
    content = msgspec.json.encode(call)
    if b"\\u0000" not in content:
        return content
    return msgspec.json.encode(_without_nul(msgspec.to_builtins(call)))


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace(NUL, SHOWN_NUL)
    if isinstance(value, list):
        return [_without_nul(one) for one in value]
    if isinstance(value, dict):
        return {_without_nul(name): _without_nul(one) for name, one in value.items()}
    return value
