"""Connect to the websocket application without a network.

Channels has its own communicator, which needs daphne; this is the part that the tests use.
"""

import asyncio
import copy
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from django.test import Client

from config.asgi import application
from runs.lifecycle.models import Run
from runs.live.schemas import ControlFrame, PageFrame
from tests.factories import bearer, make_user

ORIGIN = (b"origin", b"http://localhost")
HOST = (b"host", b"localhost")
LATE = "newest"
Frame = PageFrame | ControlFrame


def read_clock() -> datetime:
    """Return the current time, for the hub of the live pages."""
    return datetime.now(UTC)


class WebsocketCommunicator(ApplicationCommunicator):
    """One websocket, starting with its handshake."""

    def __init__(self, path: str, headers: list[tuple[bytes, bytes]]) -> None:
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": b"",
            "headers": [HOST, *headers],
            "subprotocols": [],
            "client": ["127.0.0.1", 1],
            "server": ["localhost", 80],
        }
        super().__init__(application, scope)

    async def connect(self) -> bool:
        """Send the handshake; return whether the socket was accepted."""
        await self.send_input({"type": "websocket.connect"})
        answer = await self.receive_output(20)
        return bool(answer["type"] == "websocket.accept")

    async def send(self, text: str) -> None:
        """Send a text frame."""
        await self.send_input({"type": "websocket.receive", "text": text})

    async def receive(self, timeout: float) -> str:  # noqa: ASYNC109 as in the class it extends
        """Return the next text frame."""
        answer: dict[str, Any] = await self.receive_output(timeout)
        assert answer["type"] == "websocket.send", answer
        return str(answer["text"])

    async def disconnect(self) -> None:
        """Close the socket and wait until the application has ended."""
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(20)


class Page:
    """A browser tab that sends and receives JSON."""

    def __init__(self, socket: WebsocketCommunicator) -> None:
        self.socket = socket
        self._parts: dict[str, dict[str, Any]] = {}
        """Newest parts of each topic."""

    async def send(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message))

    async def receive(self, kind: str, *, within: float = 20.0) -> Any:
        """Return the next frame of a kind, skipping heartbeats."""
        return await self.receive_any(kind, within=within)

    async def receive_any(self, *kinds: str, within: float = 20.0) -> Any:
        """Return the next frame of any of the kinds, skipping heartbeats."""
        async with asyncio.timeout(within):
            while True:
                text = await self.socket.receive(within)
                msgspec.json.decode(text, type=Frame)  # every frame must match the schema
                frame = json.loads(text)
                self._keep_parts(frame)
                if frame["type"] in kinds:
                    return frame
                assert frame["type"] == "beat", frame

    def _keep_parts(self, frame: dict[str, Any]) -> None:
        """Store the parts of a frame, and add changed ones to it as a whole."""
        if frame["type"] == "snapshot":
            self._parts[frame["topic"]] = {}
        known = self._parts.get(frame.get("topic", ""), {})
        for name, changes in frame.get("changes", {}).items():
            part = copy.deepcopy(known[name])
            for (*path, last), value in changes:
                inner = part
                for key in path:
                    inner = inner[key]
                assert isinstance(inner, dict) or last < len(inner)
                inner[last] = value
            frame["parts"][name] = part
        known |= frame.get("parts", {})

    async def receives_nothing(self, *, seconds: float) -> bool:
        """Return whether only heartbeats arrive for some time."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if await self.socket.receive_nothing(timeout=left):
                return True
            if json.loads(await self.socket.receive(1.0))["type"] != "beat":
                return False
        return True

    async def receive_parts(self, *, within: float = 20.0) -> Any:
        """Return the next delta with parts: one change may be sent as two frames."""
        while not (delta := await self.receive("delta", within=within))["parts"]:
            pass
        return delta

    async def watch(self, topic: str) -> Any:
        """Return the topic's snapshot, merged with the part that follows it."""
        await self.send(type="subscribe", topic=topic)
        snapshot = await self.receive("snapshot")
        while topic.startswith("run:") and LATE not in snapshot["parts"]:
            late = await self.receive("delta")
            snapshot["parts"] |= late["parts"]
            snapshot["sequence"] = late["sequence"]
        return snapshot


@asynccontextmanager
async def opened(path: str, headers: list[tuple[bytes, bytes]]) -> AsyncIterator[Page]:
    socket = WebsocketCommunicator(path, [ORIGIN, *headers])
    assert await socket.connect()
    yield Page(socket)
    await socket.disconnect()


def cookie_of(role: str) -> list[tuple[bytes, bytes]]:
    client = Client()
    client.force_login(make_user(role=role))
    return [(b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode())]


def headers_of(*scopes: str, run: Run | None = None) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", bearer(*scopes, run=run)["Authorization"].encode())]


def in_database(act: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    return database_sync_to_async(act)
