"""HTTP server that receives webhooks like an external machine."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """A real HTTP server that responds with the given statuses, one after the other."""

    def __init__(self, answers: list[int]) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        waiting = list(answers)
        self.answer: Callable[[bytes], int] = lambda _: waiting.pop(0) if waiting else 200
        """Returns the status for a body."""

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:  # noqa: N805 the library's name; self is taken
                body = handler.rfile.read(int(handler.headers["Content-Length"]))
                self.requests.append((dict(handler.headers), body))
                handler.send_response(self.answer(body))
                handler.send_header("Location", "http://127.0.0.1:1/elsewhere")
                handler.send_header("Content-Length", "0")
                handler.end_headers()

            def log_message(handler, *_: Any) -> None:  # noqa: N805
                """Log nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hooks/a-secret-path"


@contextmanager
def receiver(*answers: int) -> Iterator[Receiver]:
    server = Receiver(list(answers))
    thread = threading.Thread(target=server.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.server.shutdown()
    server.server.server_close()
    thread.join()
