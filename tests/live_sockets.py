"""Speak to the websocket application of the deck without a network in between.

Channels has a communicator of its own, which needs daphne; this is the part of it that tests use.
"""

from typing import Any

from asgiref.testing import ApplicationCommunicator

from config.asgi import application


class WebsocketCommunicator(ApplicationCommunicator):
    """One websocket, from its handshake on."""

    def __init__(self, path: str, headers: list[tuple[bytes, bytes]]) -> None:
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": b"",
            "headers": headers,
            "subprotocols": [],
            "client": ["127.0.0.1", 1],
            "server": ["localhost", 80],
        }
        super().__init__(application, scope)

    async def connect(self) -> bool:
        """Shake hands; return whether the socket was accepted."""
        await self.send_input({"type": "websocket.connect"})
        answer = await self.receive_output(20)
        return bool(answer["type"] == "websocket.accept")

    async def say(self, text: str) -> None:
        """Send a text frame."""
        await self.send_input({"type": "websocket.receive", "text": text})

    async def hear(self, timeout: float) -> str:  # noqa: ASYNC109 as in the class it extends
        """Return the next text frame."""
        answer: dict[str, Any] = await self.receive_output(timeout)
        assert answer["type"] == "websocket.send", answer
        return str(answer["text"])

    async def disconnect(self) -> None:
        """Close the socket and wait until the application has ended."""
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(20)
