"""Detect whether a client read a response or closed its connection first.

A write to a socket succeeds even if the client has timed out. The next event on the connection
shows the outcome: another request, or a close with all bytes acknowledged, follows a read; a reset
follows a close with unread bytes. Without either, the response counts as read after
:data:`SETTLED_SECONDS`, once the client's kernel has acknowledged it.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

SETTLED_SECONDS: Final = 0.25
CHECKS: Final = 20
"""Checks, :data:`SETTLED_SECONDS` apart, before an unacknowledged response counts as lost."""
Note = Callable[[bool], None]
# `tcpi_unacked` of Linux' struct tcp_info follows eight bytes and four 32-bit numbers.
_UNACKED: Final = struct.Struct("=24xI")
_TCP_INFO: Final = getattr(socket, "TCP_INFO", None)


class AnswerReceipts:
    """The last response of one connection until it is known to be read or lost."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._note: Note | None = None
        self._connected: Any = None
        self._timer: asyncio.TimerHandle | None = None

    def expect(self, connected: Any, note: Note) -> None:
        """Call `note` once with whether the response just sent on `connected` was read."""
        self.settle(was_read=True)
        self._note, self._connected = note, connected
        self._check_later(CHECKS)

    def settle(self, *, was_read: bool) -> None:
        """Report the outcome of a pending response, after another request or a reset."""
        note, self._note, self._connected = self._note, None, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if note is not None:
            note(was_read)

    def ended(self) -> None:
        """Report the outcome of a pending response when the client closes its side."""
        if self._note is not None:
            self.settle(was_read=_is_acknowledged(self._connected))

    def _check_later(self, left: int) -> None:
        self._timer = self._loop.call_later(SETTLED_SECONDS, self._check, left)

    def _check(self, left: int) -> None:
        if _is_acknowledged(self._connected):
            self.settle(was_read=True)
        elif left > 1:
            self._check_later(left - 1)
        else:
            self.settle(was_read=False)


def _is_acknowledged(connected: Any) -> bool:
    """Return whether the client's kernel has acknowledged every byte that was sent."""
    if connected is None or _TCP_INFO is None:
        return True
    with suppress(OSError), socket.socket(fileno=socket.dup(connected.fileno())) as copy:
        if copy.family not in {socket.AF_INET, socket.AF_INET6}:
            return True
        if copy.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            return False
        info = copy.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _UNACKED.size)
        (unacked,) = _UNACKED.unpack(info)
        return bool(unacked == 0)
    return False
