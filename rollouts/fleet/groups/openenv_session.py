"""Sessions of OpenEnv servers over ``/ws``: one JSON message and one response at a time."""

from contextlib import ExitStack
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from rollouts.fleet.groups.openenv_settings import OpenEnvSettings

MESSAGE_BYTES: Final = 64 << 20
SHOWN: Final = 500


class SessionFailed(RuntimeError):
    """The server is unreachable, failed, or sent a malformed response."""


class ActionRefused(ValueError):
    """The server refused an action as invalid; the episode continues."""


class Observed(Struct, frozen=True):
    """Result of a reset or a step."""

    observation: Any
    reward: float | None = None
    done: bool = False


class _Error(Struct, frozen=True):
    message: str
    code: str = ""
    errors: list[dict[str, Any]] = []


class _Response(Struct, frozen=True):
    type: Literal["observation", "state", "error", "mcp"]
    data: msgspec.Raw


class Session:
    """One episode's connection; its environment on the server is not shared."""

    def __init__(self, settings: OpenEnvSettings) -> None:
        """Connect.

        Raises:
            SessionFailed: If the server is unreachable.
        """
        self._seconds = settings.message_seconds
        self._connection = ExitStack()
        self._url = "ws" + settings.url.removeprefix("http").rstrip("/") + "/ws"
        try:
            self._socket = self._connection.enter_context(
                connect(
                    self._url,
                    additional_headers=settings.headers,
                    open_timeout=self._seconds,
                    close_timeout=1,
                    max_size=MESSAGE_BYTES,
                    proxy=None,
                )
            )
        except (OSError, WebSocketException) as error:
            raise SessionFailed(f"{self._url} is unreachable: {error}") from error

    def reset(self, arguments: dict[str, Any]) -> Observed:
        """Begin an episode; return its first observation.

        Raises:
            SessionFailed: If the server refuses the arguments, or fails.
        """
        try:
            return self._observed("reset", arguments)
        except ActionRefused as refusal:
            raise SessionFailed(f"{self._url} refused the reset: {refusal}") from refusal

    def step(self, action: dict[str, Any]) -> Observed:
        """Return the result of an action.

        Raises:
            ActionRefused: If the action is invalid.
            SessionFailed: If the server fails.
        """
        return self._observed("step", action)

    def close(self) -> None:
        """End the session."""
        self._connection.close()

    def _observed(self, kind: str, data: dict[str, Any]) -> Observed:
        try:
            self._socket.send(msgspec.json.encode({"type": kind, "data": data}).decode())
            content = self._socket.recv(timeout=self._seconds)
        except TimeoutError as error:
            raise SessionFailed(
                f"{self._url} sent no response within {self._seconds:g} s"
            ) from error
        except (OSError, WebSocketException) as error:
            raise SessionFailed(f"{self._url} closed the session: {error}") from error
        try:
            response = msgspec.json.decode(content, type=_Response)
            if response.type != "error":
                return msgspec.json.decode(response.data, type=Observed)
            failure = msgspec.json.decode(response.data, type=_Error)
        except msgspec.DecodeError as error:
            raise SessionFailed(
                f"{self._url} sent a malformed response, {error}: {content[:SHOWN]!r}"
            ) from error
        if failure.code == "VALIDATION_ERROR":
            raise ActionRefused("; ".join(map(_shown, failure.errors)) or failure.message)
        raise SessionFailed(f"{self._url}: {failure.code}: {failure.message}")


def _shown(error: dict[str, Any]) -> str:
    field = ".".join(str(part) for part in error.get("loc") or ())
    return f"{field}: {error.get('msg', 'invalid')}"
