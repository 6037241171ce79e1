"""Serve the requests of machines (trainers, environments, fleets) without cookies or sessions.

Django's own ASGI handler starts a thread, takes a database connection out of the pool and runs
the session, CSRF and static file middleware for each request. Machines send hundreds of requests
a second and need none of these. Here a request runs in one of a few threads that keep their
connection, with five middlewares, and a waiting request holds neither thread nor connection.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from typing import Any, Final, TypeVar

from asgiref.typing import (
    ASGI3Application,
    ASGIReceiveCallable,
    ASGISendCallable,
    HTTPResponseStartEvent,
    Scope,
)
from django.core.handlers.base import BaseHandler
from django.core.handlers.exception import convert_exception_to_response
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, ResolverMatch, resolve
from django.utils.module_loading import import_string

from buffer.batches.api.answers import StoredAnswer, TrackedAnswer
from config.database_connections import MACHINE_THREADS
from config.decompression import CompressedRequest
from config.http_protocol import Parts
from config.postgresql.base import closed_by_server
from web.http.problems import respond
from web.http.push_answers import CLIENT_LEFT
from web.http.waiting import Waiting
from web.live.wakeups import WaitQueues
from web.rules.errors import Invalid

T = TypeVar("T")
PIECE_BYTES: Final = 1 << 20
# Joining such parts costs less than sending each.
SMALL_BYTES: Final = 1 << 16
MIDDLEWARE: Final = (
    "config.middleware.CallLog",
    "config.middleware.SecurityHeaders",
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",  # rejects unknown hosts
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
)


class Machines:
    """ASGI application that serves machines' requests and passes on all others."""

    def __init__(self, others: ASGI3Application) -> None:
        self._others = others
        self._handler = _Handler()
        self._threads = ThreadPoolExecutor(
            MACHINE_THREADS, thread_name_prefix="machines", initializer=_use_own_connection
        )
        self._wait_queues: WaitQueues | None = None

    async def __call__(
        self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        """Serve a machine's request, or pass another one on."""
        route = machine_route(scope)
        if route is None:
            await self._others(scope, receive, send)
            return
        body = await _read_body(receive)
        if body is None:
            return
        # A server that cannot detect a hang-up reports none.
        client_left: Any = scope.get(CLIENT_LEFT, lambda: False)
        client = _Client(receive, client_left=client_left)
        try:
            answer = await self._run(partial(self._handler.answer, scope, body, route))
            later = await self._later(answer, client) if isinstance(answer, Waiting) else answer
            if later is not None:
                await self._send(later, send, client)
        finally:
            client.forget()

    def close_connections(self) -> None:
        """Close the connection of each thread; call it only without requests in progress."""
        together = threading.Barrier(MACHINE_THREADS)

        def close() -> None:
            together.wait()  # occupies every thread exactly once
            connection.close()

        for done in [self._threads.submit(close) for _ in range(MACHINE_THREADS)]:
            done.result()

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, _connected, work)

    async def _later(self, waiting: Waiting, client: "_Client") -> HttpResponseBase | None:
        """Return the response once available or after the wait; None if the client left."""
        wait_queues = self._wait_queues
        if wait_queues is None or not wait_queues.is_of_running_loop:
            wait_queues = self._wait_queues = WaitQueues()
        slot = wait_queues.join(waiting.queue)
        answer: HttpResponseBase | None = None
        # Covers a change between the first check and joining the queue.
        slot.turn.set()
        try:
            while True:
                left = waiting.until - time.monotonic()
                if not await client.wait_for(slot.turn, left):
                    if client.has_disconnected:
                        return None
                    break
                slot.turn.clear()
                answer = await self._run(waiting.poll)
                if answer is not None:
                    return answer
        finally:
            wait_queues.leave(slot, satisfied=answer is not None)
        return await self._run(waiting.last)

    async def _send(
        self, answer: HttpResponseBase, send: ASGISendCallable, client: "_Client"
    ) -> None:
        if not isinstance(answer, TrackedAnswer):
            if isinstance(answer, StoredAnswer):
                parts = [*answer.parts]
            elif isinstance(answer, HttpResponse):
                parts = [answer.content]
            else:
                parts = [b"".join(answer)]
            await send(_start(answer, parts))
            # The end of a small response is sent with its head, in one write.
            last = parts.pop() if parts and len(parts[-1]) < SMALL_BYTES else b""
            await send_pieces(parts, send)
            await send({"type": "http.response.body", "body": last, "more_body": False})
            if answer.streaming:  # it may hold a file; other responses need no close
                answer.close()
            return
        is_sent = False
        try:
            await send(_start(answer, answer.parts))
            await send_pieces([*answer.parts[:-1], answer.parts[-1][:-1]], send)
            # Returns when the server's buffer is nearly empty.
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            is_sent = not client.client_left()
        finally:
            # The note is not awaited, so it cannot be cancelled.
            self._threads.submit(_connected, partial(answer.finish, is_sent=is_sent))
        last = answer.parts[-1][-1:]
        await send({"type": "http.response.body", "body": last, "more_body": False})


class _Handler(BaseHandler):
    """Django's request handler with few middlewares, in a single thread."""

    def __init__(self) -> None:
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        chain: Any = convert_exception_to_response(self._get_response)  # type: ignore[attr-defined]
        for path in reversed(MIDDLEWARE):
            chain = convert_exception_to_response(import_string(path)(chain))
        self._middleware_chain = chain

    def resolve_request(self, request: HttpRequest) -> ResolverMatch:
        """Return the route that led to this handler."""
        return request.resolver_match  # type: ignore[return-value]

    def answer(self, scope: Scope, body: bytes, route: ResolverMatch) -> HttpResponseBase:
        """Return the response to a request whose body has been read."""
        try:
            request = CompressedRequest(scope, BytesIO(body))
        except UnicodeDecodeError:
            return respond(Invalid("the query string is not valid UTF-8"))
        request.resolver_match = route
        request.may_wait = True  # type: ignore[attr-defined]
        response: HttpResponseBase = self.get_response(request)
        return response


class _Client:
    """The state of a client's connection, watched by a separate task."""

    def __init__(self, receive: ASGIReceiveCallable, *, client_left: Callable[[], bool]) -> None:
        self._receive = receive
        self.client_left = client_left
        """Returns whether the client hung up, according to the kernel."""
        self._leaving: asyncio.Task[Any] | None = None

    @property
    def has_disconnected(self) -> bool:
        """Whether the server has reported a disconnect."""
        return self._leaving is not None and self._leaving.done()

    def watch(self) -> "asyncio.Task[Any]":
        """Start waiting for the end of the connection."""
        if self._leaving is None:
            self._leaving = asyncio.ensure_future(self._receive())
        return self._leaving

    async def wait_for(self, turn: asyncio.Event, seconds: float) -> bool:
        """Return True at the turn, False after the timeout or a disconnect."""
        if turn.is_set() and not self.has_disconnected:
            return True
        waiting = asyncio.ensure_future(turn.wait())
        await asyncio.wait(
            {waiting, self.watch()}, timeout=max(seconds, 0), return_when=asyncio.FIRST_COMPLETED
        )
        waiting.cancel()
        return turn.is_set() and not self.has_disconnected

    def forget(self) -> None:
        """Stop watching."""
        if self._leaving is not None:
            self._leaving.cancel()


def machine_route(scope: Scope) -> ResolverMatch | None:
    """Return the route of a request that its view serves to machines; otherwise None."""
    if scope["type"] != "http":
        return None
    try:
        route = resolve(scope["path"])
    except Resolver404:
        return None
    view: Any = getattr(route.func, "cls", None)
    if not getattr(view, "serves_machines", False):
        return None
    has_cookie = any(name == b"cookie" for name, _ in scope["headers"])
    return None if has_cookie and not view.ignores_cookies else route


def _use_own_connection() -> None:
    """Give this thread its own connection, outside of the pool that pages and jobs share.

    A pool exhausted by pages then delays no push. If the server is down, connecting fails at once,
    while the pool would wait for a connection.
    """
    given = connection.settings_dict
    options = {name: value for name, value in given["OPTIONS"].items() if name != "pool"}
    connection.settings_dict = given | {"OPTIONS": options}


def _connected(work: Callable[[], T]) -> T:
    """Run `work` on this thread's database connection, and keep a healthy connection open."""
    raw = connection.connection
    if raw is not None and closed_by_server(raw):
        raw.close()
        connection.close()
    try:
        return work()
    finally:
        if connection.errors_occurred or connection.in_atomic_block:
            connection.close()


def _start(answer: HttpResponseBase, parts: list[bytes]) -> HTTPResponseStartEvent:
    if answer.status_code not in {204, 304}:
        answer.headers["Content-Length"] = str(sum(map(len, parts)))
    headers = [
        (name.lower().encode("ascii"), value.encode("latin-1")) for name, value in answer.items()
    ]
    return {
        "type": "http.response.start",
        "status": answer.status_code,
        "headers": headers,
        "trailers": False,
    }


def _pieces(parts: Sequence[bytes]) -> Iterator[Parts]:
    """Yield the same bytes in pieces of at most a megabyte."""
    piece: list[bytes | memoryview] = []
    left = PIECE_BYTES
    for part in _with_small_joined(parts):
        rest = memoryview(part)
        while rest:
            taken, rest = rest[:left], rest[left:]
            piece.append(taken)
            left -= len(taken)
            if not left:
                yield Parts(piece)
                piece, left = [], PIECE_BYTES
    if piece:
        yield Parts(piece)


def _with_small_joined(parts: Sequence[bytes]) -> Iterator[bytes]:
    small: list[bytes] = []
    for part in parts:
        if len(part) < SMALL_BYTES:
            small.append(part)
            continue
        yield b"".join(small)
        small = []
        yield part
    yield b"".join(small)


async def _read_body(receive: ASGIReceiveCallable) -> bytes | None:
    """Return the body, already limited by outer middleware; None if the client left.

    A function of its own, so that the pieces of a large body are freed before it is processed.
    """
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        if piece := message.get("body"):
            pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def send_pieces(parts: Sequence[bytes], send: ASGISendCallable) -> None:
    """Send the parts of a body; yield to other tasks after each megabyte."""
    unheard = 0
    for piece in _pieces(parts):
        body: Any = piece  # not bytes: `BoundedHttp` writes `Parts` without joining them
        await send({"type": "http.response.body", "body": body, "more_body": True})
        unheard += len(piece)
        # `send` blocks only if the client reads slowly. With a fast client all pieces would be
        # sent in one turn of the loop, and other tasks would not run until the end.
        if unheard >= PIECE_BYTES:
            unheard = 0
            await asyncio.sleep(0)
