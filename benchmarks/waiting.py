"""Hold many long polls open, in a separate process."""

import contextlib
import selectors
import socket
import time
from typing import Any, Final
from urllib.parse import urlsplit

from benchmarks.http_client import request_bytes
from benchmarks.rolldeck_server import TOKEN

CONNECT_SECONDS: Final = 10.0


def wait_for_batches(url: str, *, waiters: int, seconds: float) -> dict[str, Any]:
    """Request a batch on `waiters` connections at once, and again after each response.

    Returns:
        The number of waiters, the responses before the time was over (without pushes, there should
        be none), and the number of closed connections.
    """
    parts = urlsplit(url)
    ask = request_bytes(
        "POST",
        "/api/v1/runs/default/batches/next",
        b'{"wait_seconds":%d}' % seconds,
        headers={"Authorization": f"Bearer {TOKEN}"},
    )
    until = time.monotonic() + seconds
    closed = 0
    answers: dict[str, int] = {}
    with contextlib.ExitStack() as lines, selectors.DefaultSelector() as ready:
        for _ in range(waiters):
            line = socket.create_connection((parts.hostname, parts.port), CONNECT_SECONDS)
            lines.enter_context(line)
            line.sendall(ask)
            line.setblocking(False)
            ready.register(line, selectors.EVENT_READ, line)
        while (left := until - time.monotonic()) > 0:
            for key, _ in ready.select(left):
                line = key.data
                part = line.recv(65536)
                if part.startswith(b"HTTP/1.1 "):
                    status = part[9:12].decode()
                    answers[status] = answers.get(status, 0) + 1
                    line.send(ask)
                elif not part:
                    closed += 1
                    ready.unregister(line)
    return {"waiters": waiters, "answers": answers, "closed": closed}
