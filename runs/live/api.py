"""Websockets: live pages, and the control channel of rollout handlers."""

import asyncio
import logging
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.utils import timezone

from runs.access.queries import caller_of_session, caller_of_token
from runs.access.rules import KNOW_RUN, READ, Caller, MalformedCredentials, token_in
from runs.access.services.tokens import authenticate
from runs.lifecycle.queries import RunNotFound, readable_run, run_named
from runs.live.rules import SERVER_TOPICS, frame_topic, key_of, rule_of
from runs.live.schemas import (
    BeatFrame,
    ErrorFrame,
    PageFrame,
    PageMessage,
    Resync,
    Subscribe,
    Unsubscribe,
    Visible,
)
from runs.live.services import CONTROL_PREFIX, RUN_PREFIX, Hub, hub
from web import outages
from web.live.wakeups import SharedReads
from web.live.websocket_protocol import Socket
from web.rules.errors import ApiError, Conflict, Forbidden, Invalid, NotFound

logger = logging.getLogger(__name__)

# Rights are checked with each heartbeat, so a revoked token soon loses its socket.
BEAT_SECONDS: Final = 5.0
# Heartbeats of sockets with the same credential within this time share one check.
RIGHTS_SHARED_SECONDS: Final = 1.0
MAX_MESSAGE_CHARACTERS: Final = 4096
MAX_TOPICS: Final = 32
TRY_AGAIN_LATER: Final = 1013
NOT_SIGNED_IN: Final = 4401
NOT_ALLOWED: Final = 4403
NOT_FOUND: Final = 4404


class UnknownTopic(NotFound):
    """No topic has this name."""

    code = "unknown_topic"
    title = "Unknown topic"


class TooManyTopics(Conflict):
    """The socket is subscribed to the maximum number of topics."""

    code = "too_many_topics"
    title = "Too many topics"


class NotSubscribed(Conflict):
    """The socket is not subscribed to the topic."""

    code = "not_subscribed"
    title = "Not subscribed"


class Credential(NamedTuple):
    """Credential that opened a socket: a token, or the key of a session."""

    token: str | None
    session_key: str | None
    address: str | None = None
    """Client address of a token."""


def credential_of(scope: dict[str, Any]) -> Credential | None:
    """Return the credential of a socket; None if it is malformed."""
    headers = dict(scope["headers"])
    try:
        token = token_in(headers.get(b"authorization", b"").decode("latin-1"))
    except MalformedCredentials:
        return None
    key = scope.get("cookies", {}).get(settings.SESSION_COOKIE_NAME)
    # Not needed for sessions: sockets of one session share a check of their rights.
    address = (scope.get("client") or [None])[0] if token else None
    return Credential(token, key, address)


def caller_of(credential: Credential) -> Caller | None:
    """Return the caller that the credential identifies now, or None."""
    if credential.token is not None:
        token = authenticate(text=credential.token, address=credential.address, now=timezone.now())
        return caller_of_token(token) if token else None
    key = credential.session_key
    return caller_of_session(key) if key else None


Callers = SharedReads[Credential, Caller | None]
_callers: "WeakKeyDictionary[asyncio.AbstractEventLoop, Callers]" = WeakKeyDictionary()
"""Lookups that the sockets of an event loop share."""


class SocketConsumer(AsyncWebsocketConsumer):
    """Socket fed by the hub: a task sends queued frames, another sends heartbeats."""

    beats = True
    hub: Hub
    credential: Credential
    caller: Caller

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve the socket, and leave the hub in any case."""
        self.page = Socket()
        self._tasks: list[asyncio.Task[None]] = []
        try:
            await super().__call__(scope, receive, send)
        finally:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                self.hub.leave(self.page)

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Handle a message; an outage of the database closes the socket."""
        try:
            await super().dispatch(message)
        except outages.DATABASE_ERRORS as error:
            logger.warning("socket_closed_by_outage: %s", " ".join(str(error).split()))
            await self.close(TRY_AGAIN_LATER)

    async def connect(self) -> None:
        """Accept known callers."""
        await self.accept()
        credential = credential_of(self.scope)
        # Checked for this socket individually: cached results do not admit callers.
        caller = await database_sync_to_async(caller_of)(credential) if credential else None
        if credential is None or caller is None or not caller.is_known:
            await self.close(NOT_SIGNED_IN)
            return
        self.credential, self.caller, self.hub = credential, caller, hub(timezone.now)
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(act()) for act in (self._send_frames, self._send_heartbeats)
        ]
        await self.entered()

    async def entered(self) -> None:
        """Begin, with the caller authenticated."""

    async def _send_frames(self) -> None:
        """Send the frames that the hub queues."""
        try:
            while True:
                await self.page.send_next(self.send)
        except (OSError, RuntimeError) as error:
            # The client disconnected during a frame.
            logger.debug("socket closed while sending: %s", error)

    async def _send_heartbeats(self) -> None:
        try:
            while True:
                await asyncio.sleep(BEAT_SECONDS)
                await self._beat()
        except (OSError, RuntimeError) as error:
            logger.debug("socket closed while beating: %s", error)

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        if loop not in _callers:
            read_caller = database_sync_to_async(caller_of)
            _callers[loop] = SharedReads(read_caller, seconds=RIGHTS_SHARED_SECONDS)
        try:
            caller = await _callers[loop].of(self.credential)
        except outages.DATABASE_ERRORS:
            # Nothing can be read during the outage; without heartbeats the page shows that it lags.
            logger.exception("rights not checked")
            return
        if caller is None or not caller.is_known:
            await self.close(NOT_SIGNED_IN)
            return
        self.caller = caller
        for topic in list(self.page.sequences):
            if not may_watch(caller, topic):
                await self.close(NOT_ALLOWED)
        if self.beats:
            # With no frames in transit the page must have all of these, which reveals lost frames.
            sequences = self.page.sequences if self.page.frames.empty() else {}
            sent = {frame_topic(topic): number for topic, number in sequences.items()}
            await self._send_frame(BeatFrame(at=timezone.now(), sequences=sent))

    async def _send_frame(self, frame: PageFrame) -> None:
        await self.send(text_data=msgspec.json.encode(frame).decode())


def may_watch(caller: Caller, topic: str) -> bool:
    """Return whether the caller may keep watching a topic; machines know the state of their run."""
    if rule := rule_of(topic):
        return rule.may_watch(caller)
    right = KNOW_RUN if topic.startswith(CONTROL_PREFIX) else READ
    return right.allows(caller, run=_run_in(topic))


def _run_in(topic: str) -> str:
    return topic.partition(":")[2]


class LiveConsumer(SocketConsumer):
    """The live pages of one browser tab."""

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Handle a page's message, or reply with an error."""
        if not self._tasks:
            return
        topic = ""
        try:
            if text_data is None or len(text_data) > MAX_MESSAGE_CHARACTERS:
                raise Invalid(f"must be text of at most {MAX_MESSAGE_CHARACTERS} characters")
            try:
                command: PageMessage = msgspec.json.decode(text_data, type=PageMessage)
            except (msgspec.MsgspecError, ValueError) as error:
                raise Invalid(str(error)) from error
            match command:
                case Visible(visible=visible):
                    self.hub.show(self.page, visible=visible)
                case Subscribe(topic=topic):
                    await self._check(topic)
                    self.hub.subscribe(self.page, key_of(topic, self.caller))
                case Unsubscribe(topic=topic):
                    self.hub.unsubscribe(self.page, key_of(topic, self.caller))
                case Resync(topic=topic):
                    key = key_of(topic, self.caller)
                    if key not in self.page.sequences:
                        raise NotSubscribed("subscribe to the topic first")
                    self.hub.resync(self.page, key)
        except ApiError as refusal:
            frame = ErrorFrame(topic=topic, code=refusal.code, detail=str(refusal))
            await self._send_frame(frame)

    async def _check(self, topic: str) -> None:
        """Check that the page may watch a topic.

        Raises:
            UnknownTopic: If no topic has this name.
            Forbidden: If the caller lacks the right.
            TooManyTopics: If the socket is at its limit.
            RunNotFound: If the topic's run does not exist.
        """
        rule, run = SERVER_TOPICS.get(topic), _run_in(topic)
        is_run = topic.startswith(RUN_PREFIX) and "\0" not in topic  # PostgreSQL refuses NUL
        if rule is None and not is_run:
            known = ", ".join(sorted(SERVER_TOPICS))
            raise UnknownTopic(f"unknown topic; known: {known}, {RUN_PREFIX}<name>")
        if not may_watch(self.caller, topic):
            raise Forbidden(
                rule.refusal(self.caller) if rule else READ.refusal(self.caller, run=run)
            )
        if (
            len(self.page.sequences) >= MAX_TOPICS
            and key_of(topic, self.caller) not in self.page.sequences
        ):
            raise TooManyTopics(f"at most {MAX_TOPICS} topics per socket")
        if rule is None:
            await database_sync_to_async(readable_run)(run)


class ControlConsumer(SocketConsumer):
    """Control channel: sends the control state of one run, at once and on each change."""

    beats = False

    async def entered(self) -> None:
        """Watch the run, if the caller may read it."""
        run: str = self.scope["url_route"]["kwargs"]["run"]
        if not KNOW_RUN.allows(self.caller, run=run):
            await self.close(NOT_ALLOWED)
            return
        try:
            await database_sync_to_async(run_named)(run)
        except RunNotFound:
            await self.close(NOT_FOUND)
        else:
            self.hub.subscribe(self.page, f"{CONTROL_PREFIX}{run}")
