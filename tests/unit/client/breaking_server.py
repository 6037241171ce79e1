"""Serve one file over real HTTP, and break connections and replace the file on request."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class BreakingFile:
    """File of the server.

    Attributes:
        breaks_after: Bytes to send before each of the next disconnects.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.tag = hashlib.sha256(content).hexdigest()
        self.breaks_after: list[int] = []
        self.then: bytes | None = None
        """Replaces the content at the first disconnect, with a new ETag."""
        self.keeps_tag = False
        """Keeps the old ETag, like a storage that overwrites files in place."""
        self.requests: list[str] = []
        """The Range header of each request, empty where there was none."""

    def swap(self) -> None:
        """Replace the content by `then`, if it is set."""
        if self.then is not None:
            self.content, self.then = self.then, None
            if not self.keeps_tag:
                self.tag = hashlib.sha256(self.content).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    file: BreakingFile

    def do_GET(self) -> None:
        file = self.file
        requested = self.headers.get("Range", "")
        file.requests.append(requested)
        begin = int(requested.removeprefix("bytes=").removesuffix("-")) if requested else 0
        if self.headers.get("If-Range", f'"{file.tag}"') != f'"{file.tag}"':
            begin = 0
        body = file.content[begin:]
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{file.tag}"')
        if begin:
            last = len(file.content) - 1
            self.send_header("Content-Range", f"bytes {begin}-{last}/{last + 1}")
        self.end_headers()
        if file.breaks_after:
            self.wfile.write(body[: file.breaks_after.pop(0)])
            self.close_connection = True
            file.swap()
        else:
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Discard the message."""


@contextmanager
def serving(file: BreakingFile) -> Iterator[str]:
    """Serve `file` until the end of the block; yield the server's URL."""
    handler = type("Handler", (_Handler,), {"file": file})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
