"""Serve websockets: live pages, and the control channel of rollout handlers."""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.utils import timezone

from runs import selectors, services
from runs.core.credentials import MalformedCredentials, token_in
from runs.core.rights import Caller, may_read
from runs.live.hub import Hub, Socket, hub
from runs.live.topics import CONTROL_PREFIX, OF_THE_DECK, RUN_PREFIX
from runs.wire import LiveRequest

logger = logging.getLogger(__name__)

# Rights are looked at again with each beat, so a revoked token loses its socket as fast.
BEAT_SECONDS: Final = 5.0
MAX_MESSAGE_CHARACTERS: Final = 4096
MAX_TOPICS: Final = 32
NOT_SIGNED_IN: Final = 4401
NOT_ALLOWED: Final = 4403
NOT_FOUND: Final = 4404


def caller_of(scope: dict[str, Any]) -> Caller | None:
    """Return who opened a socket, as of now: a token in the header, or a session."""
    headers = dict(scope["headers"])
    try:
        text = token_in(headers.get(b"authorization", b"").decode("latin-1"))
    except MalformedCredentials:
        return None
    if text is not None:
        token = services.authenticate(text=text, now=timezone.now())
        return selectors.caller_of_token(token) if token else None
    session_key = scope.get("cookies", {}).get(settings.SESSION_COOKIE_NAME)
    return selectors.caller_of_session(session_key) if session_key else None


class SocketConsumer(AsyncWebsocketConsumer):
    """A socket that the hub feeds: it queues frames, and one task sends them."""

    # Nudges come to the process, not to the socket: a layer would end sockets with Redis.
    channel_layer_alias = "none"
    beats = True
    hub: Hub
    caller: Caller

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve the socket and leave the hub however it ends."""
        self.page = Socket()
        self._pump: asyncio.Task[None] | None = None
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self._pump is not None:
                self._pump.cancel()
                self.hub.leave(self.page)

    async def connect(self) -> None:
        """Let in who is known."""
        await self.accept()
        caller = await database_sync_to_async(caller_of)(self.scope)
        if caller is None or not caller.is_known:
            await self.close(NOT_SIGNED_IN)
            return
        self.caller, self.hub = caller, hub()
        self._pump = asyncio.get_running_loop().create_task(self._send_frames())
        await self.entered()

    async def entered(self) -> None:
        """Begin, now that the caller is known."""

    async def _send_frames(self) -> None:
        """Send what the hub queues, and a beat every few seconds."""
        loop = asyncio.get_running_loop()
        beat_at = loop.time() + BEAT_SECONDS
        try:
            while True:
                try:
                    async with asyncio.timeout_at(beat_at):
                        frame = await self.page.frames.get()
                except TimeoutError:
                    beat_at += BEAT_SECONDS
                    await self._beat()
                else:
                    await self.send(text_data=frame)
        except (OSError, RuntimeError) as error:
            # The other side went away in the middle of a frame.
            logger.debug("socket closed while sending: %s", error)

    async def _beat(self) -> None:
        caller = await database_sync_to_async(caller_of)(self.scope)
        if caller is None or not caller.is_known:
            await self.close(NOT_SIGNED_IN)
            return
        self.caller = caller
        for topic in list(self.page.sequences):
            if not may_read(caller, run=_run_in(topic)):
                await self.close(NOT_ALLOWED)
        if self.beats:
            # With nothing on its way, the page must have all of these: a lost frame shows.
            sent = self.page.sequences if self.page.frames.empty() else {}
            await self._say({"type": "beat", "at": datetime.now(UTC), "sequences": sent})

    async def _say(self, message: dict[str, Any]) -> None:
        await self.send(text_data=msgspec.json.encode(message).decode())


def _run_in(topic: str) -> str | None:
    return None if topic in OF_THE_DECK else topic.partition(":")[2]


def _exists(run: str) -> bool:
    try:
        selectors.run_named(run)
    except selectors.RunNotFound:
        return False
    return True


class LiveConsumer(SocketConsumer):
    """The live pages of one browser tab."""

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Follow a page's request, or say what is wrong with it."""
        if self._pump is None:
            return
        try:
            asked = self._decoded(text_data)
        except (msgspec.MsgspecError, ValueError) as error:
            await self._refuse("", "invalid", str(error))
            return
        if asked.type == "visible":
            self.hub.show(self.page, visible=asked.visible)
        elif asked.type == "subscribe":
            await self._subscribe(asked.topic)
        elif asked.type == "unsubscribe":
            self.hub.unsubscribe(self.page, asked.topic)
        elif asked.topic in self.page.sequences:
            self.hub.resync(self.page, asked.topic)
        else:
            await self._refuse(asked.topic, "not_subscribed", "subscribe to the topic first")

    @staticmethod
    def _decoded(text: str | None) -> LiveRequest:
        if text is None or len(text) > MAX_MESSAGE_CHARACTERS:
            raise ValueError(f"a message is text of at most {MAX_MESSAGE_CHARACTERS} characters")
        return msgspec.json.decode(text, type=LiveRequest)

    async def _subscribe(self, topic: str) -> None:
        run = _run_in(topic)
        if run is not None and not topic.startswith(RUN_PREFIX):
            await self._refuse(topic, "unknown_topic", "topics are runs, alerts and run:<name>")
        elif not may_read(self.caller, run=run):
            await self._refuse(topic, "forbidden", "this needs the right to read the run")
        elif len(self.page.sequences) >= MAX_TOPICS and topic not in self.page.sequences:
            await self._refuse(topic, "too_many_topics", f"at most {MAX_TOPICS} topics a socket")
        elif run is not None and not await database_sync_to_async(_exists)(run):
            await self._refuse(topic, "not_found", f"there is no run {run!r}")
        else:
            self.hub.subscribe(self.page, topic)

    async def _refuse(self, topic: str, code: str, detail: str) -> None:
        await self._say({"type": "error", "topic": topic, "code": code, "detail": detail})


class ControlConsumer(SocketConsumer):
    """Tell the rollout handlers of one run what it wants of them, at once and at each change."""

    beats = False

    async def entered(self) -> None:
        """Watch the run, if the caller may read it."""
        run: str = self.scope["url_route"]["kwargs"]["run"]
        if not may_read(self.caller, run=run):
            await self.close(NOT_ALLOWED)
        elif not await database_sync_to_async(_exists)(run):
            await self.close(NOT_FOUND)
        else:
            self.hub.subscribe(self.page, f"{CONTROL_PREFIX}{run}")
