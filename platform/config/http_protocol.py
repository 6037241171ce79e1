"""Limit the cost of a connection before its request is known; buffer large bodies and responses.

uvicorn waits without limit for the end of a request's headers, and keeps all of them in memory.
Here the request line and the headers have a time limit and a size limit. Trailers of a chunked body
have the same size limit and are dropped: RFC 9110, 6.5.1 forbids their use as headers.

uvicorn passes each read of at most 256 kB through the parser, pauses the socket, and wakes the
application for it, which copies the bytes five times. A body of known length needs no parser:
its pieces are kept as they were read, and joined once.

uvloop calls the kernel with the GIL held, and copying a megabyte takes the kernel a while. Other
threads wait for the lock that long, for example a poll with its five queries.
:func:`os.writev` releases the lock during the call, and writes the parts of a response together.
"""

import asyncio
import os
import select
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Any, Final

import httptools
import msgspec
from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from config.connections import Connections, most_connections
from web.http.problems import PROBLEM_TYPE, problem_of
from web.http.push_answers import CLIENT_LEFT, WAS_RESET
from web.rules.errors import ApiError

# Buffer a request body on its way from the socket, without HTTP parser and event loop tasks.

MIN_BYTES: Final = 64 * 1024
MAX_BYTES: Final = 64 << 20
"""Lengths of bodies that are buffered. Django writes longer ones to disk as they arrive."""
PROGRESS_SECONDS: Final = 0.05
"""Delay after which the bytes of a slow body are delivered, so that its rate can be checked."""
Deliver = Callable[[bytes, bool], None]


def buffered_length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return the length of a body to buffer; 0 for a body that is left to the parser."""
    length = 0
    for name, value in headers:
        if name in {b"transfer-encoding", b"upgrade"}:
            return 0
        if name == b"content-length" and value.isdigit():
            length = int(value)
    return length if MIN_BYTES <= length <= MAX_BYTES else 0


class BodyBuffer:
    """The bytes of one body.

    Args:
        length: Length of the body in bytes.
        deliver: Called with bytes, and whether the body is complete.
        loop: The event loop of the connection.
    """

    def __init__(self, length: int, deliver: Deliver, loop: asyncio.AbstractEventLoop) -> None:
        self._missing_bytes = length
        self._pieces: list[bytes] = []
        self._deliver = deliver
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the whole body has arrived."""
        return not self._missing_bytes

    def add(self, received: bytes) -> bytes:
        """Keep received bytes; return those after the end of the body."""
        beyond = received[self._missing_bytes :]
        piece = received[: self._missing_bytes]
        self._pieces.append(piece)
        self._missing_bytes -= len(piece)
        if self.is_complete:
            self.close()
            self._flush()
        elif self._timer is None:
            self._timer = self._loop.call_later(PROGRESS_SECONDS, self._flush_slow)
        return beyond

    def close(self) -> None:
        """Stop the deliveries of a slow body."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _flush_slow(self) -> None:
        self._timer = None
        self._flush()

    def _flush(self) -> None:
        pieces, self._pieces = self._pieces, []
        self._deliver(b"".join(pieces), self.is_complete)


# Write large responses in few calls, and without holding Python's lock.

LARGE_BYTES: Final = 64 * 1024
Data = bytes | bytearray | memoryview


class Parts:
    """Parts of a body that are sent in one ASGI message without joining them.

    It has a length like bytes; `bytes(parts)` joins them, for middleware that changes the body.
    """

    def __init__(self, parts: Sequence[bytes | memoryview]) -> None:
        """Keep the parts; a write takes at most 1,024 (the kernel's limit)."""
        self.parts = parts
        self._size = sum(map(len, parts))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.parts)


class LargeWrites:
    """A transport that writes large pieces directly, as far as the kernel accepts them.

    The rest and all small pieces go through the event loop as usual. While its buffer is not
    empty, all pieces go there, which keeps them in order.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self.plain = transport
        connected = transport.get_extra_info("socket")
        self._is_plain = connected is not None and not transport.get_extra_info("sslcontext")
        self._file = connected.fileno() if connected is not None else -1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)

    def write(self, data: Data | Parts) -> None:
        """Send the data after everything that was written before."""
        parts: Sequence[Data] = data.parts if isinstance(data, Parts) else (data,)
        # After a close, another connection may have the same file descriptor.
        is_open = self._is_plain and not self.plain.is_closing()
        if len(data) >= LARGE_BYTES and is_open and self.plain.get_write_buffer_size() == 0:
            parts = self._left_of(parts)
        for part in parts:
            if part:
                self.plain.write(part)

    def _left_of(self, parts: Sequence[Data]) -> Sequence[Data]:
        """Write what the kernel accepts, and return the rest."""
        try:
            written = os.writev(self._file, parts)
        except OSError:  # full or broken: the event loop handles both
            return parts
        for place, part in enumerate(parts):
            if written < len(part):
                return [memoryview(part)[written:], *parts[place + 1 :]]
            written -= len(part)
        return ()


# Limit the cost of a connection before its request is known, and buffer large bodies.

HEAD: Final = "request line and headers"
TRAILERS: Final = "trailers"
MOST_SHOWN: Final = 100
"""Bytes of an invalid header in its error."""
# Linux reports a half-closed connection; elsewhere only a fully closed one is visible.
_ENDED: Final = getattr(select, "POLLRDHUP", 0)
_CONNECTIONS: Final = Connections(most_connections())


class HeadersTooLarge(ApiError):
    """The request line and the headers, or the trailers, exceed the size limit."""

    status = 431
    code = "headers_too_large"
    title = "Headers too large"

    def __init__(self, section: str, limit_bytes: int) -> None:
        super().__init__(f"the {section} are larger than {limit_bytes} bytes (max_header_bytes)")


class HeadersTooSlow(ApiError):
    """The headers did not arrive in time."""

    status = 408
    code = "too_slow"
    title = "Headers did not arrive"

    def __init__(self, limit_seconds: float) -> None:
        super().__init__(
            f"the headers did not arrive within {limit_seconds} seconds (max_header_seconds)"
        )


class _Fields:
    """A section of fields that is being received: the head of a request, or its trailers.

    The parser shows a field when the next one begins. Both counters are lower bounds of the size.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.received_bytes = 0
        """Bytes of reads that were in this section from begin to end."""
        self.parsed_bytes = 0


class InvalidHead(ApiError):
    """The headers contradict HTTP/1.1."""

    status = 400
    code = "invalid_head"
    title = "Invalid headers"

    def __init__(self) -> None:
        super().__init__("Host: an HTTP/1.1 request has exactly one")


class UnknownExpectation(ApiError):
    """The request expects a behaviour that HTTP does not define."""

    status = 417
    code = "unknown_expectation"
    title = "Unknown expectation"

    def __init__(self, expected: bytes) -> None:
        text = expected[:MOST_SHOWN].decode("latin-1")
        super().__init__(f"Expect: {text!r} is unknown; only 100-continue is supported")


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's HTTP protocol with a timeout and a size limit for headers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._fields: _Fields | None = _Fields(HEAD)
        self._is_websocket = False
        self._wait_limit: asyncio.TimerHandle | None = None
        self._body: BodyBuffer | None = None
        self._counted_as: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout for the first request, unless there are too many connections."""
        super().connection_made(LargeWrites(transport))  # type: ignore[arg-type]
        address = self.client[0] if self.client else ""
        if _CONNECTIONS.admit(self, address, open_count=len(self.connections)):
            self._counted_as = address
            self._wait_for_head()
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeout."""
        self._stop_waiting()
        self._uncount()
        if self._body is not None:
            self._body.close()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the received bytes, unless the headers have become too large."""
        if self._body is not None:  # its bytes bypass the parser
            self._unset_keepalive_if_required()
            data = self._body.add(data)
            if self._body.is_complete:
                self._body, self._fields = None, _Fields(HEAD)
                # The parser still expects the body.
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(
                    lenient_data_after_close=True  # as uvicorn does
                )
            if not data:
                self._wait_for_more()
                return
        fields = self._fields
        super().data_received(data)
        if fields is not None and fields is self._fields:
            fields.received_bytes += len(data)
            self._check_size(fields)
        self._wait_for_more()

    def handle_websocket_upgrade(self) -> None:
        """Switch to the WebSocket protocol, without the deadlines of HTTP requests."""
        self._is_websocket = True
        self._stop_waiting()
        self._uncount()
        self.transport = self.transport.plain  # type: ignore[attr-defined]
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        """Start the timeout at a request's first byte; a kept connection may have been idle."""
        super().on_message_begin()
        self.scope[CLIENT_LEFT] = self.client_left  # type: ignore[typeddict-unknown-key]
        self.scope[WAS_RESET] = self.was_reset  # type: ignore[typeddict-unknown-key]
        self._wait_for_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; count and drop a trailer."""
        fields = self._fields
        if fields is not None and fields.name == TRAILERS:
            fields.parsed_bytes += len(name) + len(value) + 4
            self._check_size(fields)
        else:
            super().on_header(name, value)

    def on_chunk_header(self) -> None:
        """Expect trailers, which follow the last chunk; other chunks have bytes."""
        self._fields = _Fields(TRAILERS)

    def on_headers_complete(self) -> None:
        """Pass the request on if its headers are within the limit, however they arrived."""
        head, self._fields = _Fields(HEAD), None
        self._stop_waiting()
        _CONNECTIONS.has_sent_request(self)
        head.parsed_bytes = len(self.url) + sum(
            len(name) + len(value) + 4 for name, value in self.headers
        )
        self._check_size(head)
        self._check_head()
        if not self.transport.is_closing():
            super().on_headers_complete()
            length = 0 if self.pipeline else buffered_length(self.headers)
            self._body = BodyBuffer(length, self._deliver, self.loop) if length else None

    def on_body(self, body: bytes) -> None:
        """Ignore the body of a rejected request."""
        self._fields = None
        if self._body is not None:
            self._body.add(body)
        elif not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Finish the request, unless it was rejected."""
        self._body, self._fields = None, _Fields(HEAD)
        if not self.transport.is_closing():
            super().on_message_complete()

    def close_silent(self) -> None:
        """Close at once: another connection takes this one's place."""
        self.transport.abort()

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

    def _uncount(self) -> None:
        if self._counted_as is not None:
            _CONNECTIONS.release(self, self._counted_as)
            self._counted_as = None

    def _deliver(self, data: bytes, is_complete: bool) -> None:
        """Pass bytes of a body to the application, unless the request was rejected."""
        cycle = self.cycle
        if self.transport.is_closing() or cycle.response_complete:
            return
        # Bytes, which uvicorn passes on without the copy that a bytearray takes.
        cycle.body = b"".join([cycle.body, data]) if cycle.body else data  # type: ignore[assignment]
        cycle.more_body = not is_complete
        cycle.message_event.set()

    def _check_head(self) -> None:
        """Refuse what RFC 9112, 3.2 and RFC 9110, 10.1.1 exclude."""
        hosts = sum(name == b"host" for name, _ in self.headers)
        expected = b"".join(value for name, value in self.headers if name == b"expect")
        if self.transport.is_closing():
            return
        if hosts != 1 and self.parser.get_http_version() == "1.1":
            self._refuse(InvalidHead())
        elif expected and expected.lower() != b"100-continue":
            self._refuse(UnknownExpectation(expected))

    def _check_size(self, fields: _Fields) -> None:
        most = settings.ROLLDECK_MAX_HEADER_BYTES
        is_over = max(fields.received_bytes, fields.parsed_bytes) > most
        if is_over and not self.transport.is_closing():
            self._refuse(HeadersTooLarge(fields.name, most))

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

    def _may_answer(self) -> bool:
        """Return whether the request that is being received is the next one to answer."""
        if self._fields is None or self._fields.name == HEAD:
            return self.cycle is None or self.cycle.response_complete
        return not (self.pipeline or self.cycle.response_started)

    def _refuse(self, error: ApiError) -> None:
        if self._may_answer():
            content = msgspec.json.encode(problem_of(error))
            head = (
                f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\n"
                f"Content-Type: {PROBLEM_TYPE}\r\n"
                f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + content)
            if self.cycle is not None:
                self.cycle.disconnected = True
        self.transport.close()
