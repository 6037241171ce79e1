"""Minimal HTTP/1.1 client on one socket.

The same client loads the peer and us, so its cost cancels out of a ratio. Its cost is also low:
requests are prepared bytes, and a response is read into one buffer.
"""

import socket
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

RECEIVE_BYTES: Final = 1 << 20
HEAD_END: Final = b"\r\n\r\n"
DEADLINE_SECONDS: Final = 120.0


class Refused(Exception):
    """The server responded with an error status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One response; `body` is unchanged, and compressed if the server compressed it.

    The next response of its line overwrites a memoryview.
    """

    status: int
    head: bytes
    body: bytes | memoryview

    def text(self, count: int) -> str:
        """Return the first `count` bytes of the body as text."""
        return bytes(self.body[:count]).decode(errors="replace")


def request_bytes(
    method: str, path: str, body: bytes = b"", *, headers: dict[str, str] | None = None
) -> bytes:
    """Return a complete request, ready to send."""
    fields = {"Host": "127.0.0.1", "Accept": "*/*", **(headers or {})}
    if body:
        fields = {"Content-Type": "application/json", **fields, "Content-Length": str(len(body))}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode() + HEAD_END + body


class Line:
    """A persistent connection to one server, reopened after a close.

    Args:
        url: URL of the server.
        reuses_buffer: Read all responses into one buffer. New memory for each response would cost
            more than reading it.
    """

    def __init__(self, url: str, *, reuses_buffer: bool = False) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._socket: socket.socket | None = None
        self._buffer: bytearray | None = bytearray() if reuses_buffer else None

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ok(self, request: bytes | bytearray) -> Answer:
        """Send a request and return the response.

        Raises:
            Refused: With the response, if its status is not 2xx.
        """
        answer = self.ask(request)
        if not 200 <= answer.status < 300:
            raise Refused(f"{answer.status}: {answer.text(300)}")
        return answer

    def ask(self, request: bytes | bytearray) -> Answer:
        """Send a request and return the response with any status."""
        fresh = self._socket is None
        connected = self._connected()
        try:
            connected.sendall(request)
            head, rest = self._head(connected)
        except OSError:
            # A server may close an idle connection; on a new one an error is real.
            self.close()
            if fresh:
                raise
            return self.ask(request)
        return self._answer(connected, head, rest)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=DEADLINE_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def _head(self, connected: socket.socket) -> tuple[bytes, bytes]:
        got = b""
        while HEAD_END not in got:
            part = connected.recv(RECEIVE_BYTES)
            if not part:
                raise ConnectionResetError("the server closed the connection before responding")
            got += part
        head, _, rest = got.partition(HEAD_END)
        return head, rest

    def _answer(self, connected: socket.socket, head: bytes, rest: bytes) -> Answer:
        lower = head.lower()
        body: bytes | memoryview
        if b"\r\ntransfer-encoding: chunked" in lower:
            body = _chunked(connected, rest)
        else:
            body = self._sized(connected, rest, _content_length(lower))
        if b"\r\nconnection: close" in lower:
            self.close()
        return Answer(status=int(head[9:12]), head=head, body=body)

    def _sized(self, connected: socket.socket, rest: bytes, length: int) -> bytes | memoryview:
        if len(rest) >= length:
            return rest[:length]
        buffer = bytearray(length) if self._buffer is None else self._buffer
        if len(buffer) < length:
            buffer = self._buffer = bytearray(length)
        view = memoryview(buffer)[:length]
        view[: len(rest)] = rest
        have = len(rest)
        while have < length:
            count = connected.recv_into(view[have:])
            if count == 0:
                raise ConnectionResetError(f"connection closed after {have} of {length} bytes")
            have += count
        return bytes(view) if self._buffer is None else view


def _content_length(lower_head: bytes) -> int:
    _, separator, after = lower_head.partition(b"\r\ncontent-length:")
    return int(after.partition(b"\r\n")[0]) if separator else 0


def _chunked(connected: socket.socket, rest: bytes) -> bytes:
    parts: list[bytes] = []
    buffer = bytearray(rest)
    while True:
        line_end = buffer.find(b"\r\n")
        while line_end < 0:
            buffer += _more(connected)
            line_end = buffer.find(b"\r\n")
        size = int(bytes(buffer[:line_end]), 16)
        end = line_end + 2 + size + 2
        while len(buffer) < end:
            buffer += _more(connected)
        if size == 0:
            return b"".join(parts)
        parts.append(bytes(buffer[line_end + 2 : end - 2]))
        del buffer[:end]


def _more(connected: socket.socket) -> bytes:
    part = connected.recv(256 * 1024)
    if not part:
        raise ConnectionResetError("connection closed between two chunks")
    return part
