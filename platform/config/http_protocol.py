"""Limit the cost of a connection before its request is known, and buffer large bodies.

uvicorn waits without limit for the end of a request's headers, and keeps all of them in memory.
Here the request line and the headers have a time limit and a size limit.
"""

import asyncio
import select
from http import HTTPStatus
from typing import Any, Final

import httptools
import msgspec
from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from config.body_buffer import BodyBuffer, buffered_length
from config.large_writes import LargeWrites
from web.http.problems import PROBLEM_TYPE, problem_of
from web.http.push_answers import CLIENT_LEFT, WAS_RESET
from web.rules.errors import ApiError

# Linux reports a half-closed connection; elsewhere only a fully closed one is visible.
_ENDED: Final = getattr(select, "POLLRDHUP", 0)


class HeadersTooLarge(ApiError):
    """The request line and the headers exceed the size limit."""

    status = 431
    code = "headers_too_large"
    title = "Headers too large"

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"the request line and headers are larger than {limit_bytes} bytes (max_header_bytes)"
        )


class HeadersTooSlow(ApiError):
    """The headers did not arrive in time."""

    status = 408
    code = "too_slow"
    title = "Headers did not arrive"

    def __init__(self, limit_seconds: float) -> None:
        super().__init__(
            f"the headers did not arrive within {limit_seconds} seconds (max_header_seconds)"
        )


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's HTTP protocol with a timeout and a size limit for headers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._in_head = True
        self._is_websocket = False
        self._wait_limit: asyncio.TimerHandle | None = None
        self._body: BodyBuffer | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout for the first request."""
        super().connection_made(LargeWrites(transport))  # type: ignore[arg-type]
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeout."""
        self._stop_waiting()
        if self._body is not None:
            self._body.close()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the received bytes, unless the headers have become too large."""
        if self._body is not None:
            data = self._add_to_body(self._body, data)
            if not data:
                return
        in_head = self._in_head
        super().data_received(data)
        if in_head and self._in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            self._check_size()
        self._wait_for_more()

    def handle_websocket_upgrade(self) -> None:
        """Switch to the WebSocket protocol, without the deadlines of HTTP requests."""
        self._is_websocket = True
        self._stop_waiting()
        self.transport = self.transport.plain  # type: ignore[attr-defined]
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        """Start counting at a request's first byte; a kept connection may have been idle."""
        super().on_message_begin()
        self.scope[CLIENT_LEFT] = self.client_left  # type: ignore[typeddict-unknown-key]
        self.scope[WAS_RESET] = self.was_reset  # type: ignore[typeddict-unknown-key]
        self._in_head, self._head_bytes = True, 0
        self._wait_for_head()

    def on_headers_complete(self) -> None:
        """Pass the request on if its headers are within the limit, however they arrived."""
        self._in_head = False
        self._stop_waiting()
        self._head_bytes = len(self.url) + sum(
            len(name) + len(value) + 4 for name, value in self.headers
        )
        if self._head_bytes > settings.ROLLDECK_MAX_HEADER_BYTES:
            self._check_size()
        elif not self.transport.is_closing():
            super().on_headers_complete()
            self._body = None if self.pipeline else self._buffer_of_body()

    def on_body(self, body: bytes) -> None:
        """Ignore the body of a rejected request."""
        if self._body is not None:
            self._body.add(body)
        elif not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Finish the request, unless it was rejected."""
        self._body = None
        if not self.transport.is_closing():
            super().on_message_complete()

    def client_left(self) -> bool:
        """Ask the kernel, which learns of a closed connection before the event loop does."""
        return self.transport.is_closing() or self._news(_ENDED) != 0

    def was_reset(self) -> bool:
        """Return whether the client closed the connection without reading all bytes."""
        return self._news(0) != 0

    def _news(self, wanted: int) -> int:
        """Return the state of the connection: `wanted`, errors and resets, which poll adds."""
        connected = self.transport.get_extra_info("socket")
        # Views call this from threads, and the connection may be closed meanwhile.
        if connected is None or (descriptor := connected.fileno()) < 0:
            return select.POLLNVAL
        news = select.poll()
        news.register(descriptor, wanted)
        found = news.poll(0)
        return found[0][1] if found else 0

    def _buffer_of_body(self) -> BodyBuffer | None:
        length = buffered_length(self.headers)
        return BodyBuffer(length, self._deliver, self.loop) if length else None

    def _add_to_body(self, body: BodyBuffer, data: bytes) -> bytes:
        """Add received bytes to a body, past the parser; return those of the next request."""
        self._unset_keepalive_if_required()
        beyond = body.add(data)
        if body.is_complete:
            self._body = None
            # The parser still expects the body.
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        if not beyond:
            self._wait_for_more()
        return beyond

    def _deliver(self, data: bytes, is_complete: bool) -> None:
        """Pass bytes of a body to the application, unless the request was rejected."""
        cycle = self.cycle
        if self.transport.is_closing() or cycle.response_complete:
            return
        # Bytes, which uvicorn passes on without the copy that a bytearray takes.
        cycle.body = b"".join([cycle.body, data]) if cycle.body else data  # type: ignore[assignment]
        cycle.more_body = not is_complete
        cycle.message_event.set()

    def _check_size(self) -> None:
        most = settings.ROLLDECK_MAX_HEADER_BYTES
        if self._head_bytes > most:
            self._refuse(HeadersTooLarge(most))

    def _wait_for_more(self) -> None:
        """Restart the header timeout after blank lines, which cancel uvicorn's own timeout."""
        is_idle = self.cycle is None or self.cycle.response_complete
        unwatched = self._wait_limit is None and self.timeout_keep_alive_task is None
        is_open = not (self._is_websocket or self.transport.is_closing())
        if is_idle and unwatched and is_open:
            self._wait_for_head()

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        seconds = settings.ROLLDECK_MAX_HEADER_SECONDS
        self._wait_limit = self.loop.call_later(seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._wait_limit is not None:
            self._wait_limit.cancel()
            self._wait_limit = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self._refuse(HeadersTooSlow(settings.ROLLDECK_MAX_HEADER_SECONDS))

    def _refuse(self, error: ApiError) -> None:
        if self.cycle is None or self.cycle.response_complete:
            content = msgspec.json.encode(problem_of(error))
            head = (
                f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\n"
                f"Content-Type: {PROBLEM_TYPE}\r\n"
                f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + content)
        self.transport.close()
