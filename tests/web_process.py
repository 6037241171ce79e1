"""Start the real web server in a separate process, on the test's own database."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
from django.db import connection

from tests import processes

ROOT = Path(__file__).resolve().parents[1]
EMBEDDED = ("config.web", "{fd}", "1")


def database_url() -> str:
    """Return the URL of the test's database."""
    name = connection.settings_dict["NAME"]
    return re.sub(r"^(postgresql://[^/]*/)[^?]*", rf"\g<1>{name}", os.environ["DATABASE_URL"])


class WebProcess:
    """A running web server with its address and its log."""

    def __init__(self, port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.port = port
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self._log = log

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def is_live(self) -> bool:
        assert self.process.poll() is None, self.log()
        try:
            return httpx.get(f"{self.url}/healthz/live", timeout=5).status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def web_process(
    log: Path, *, module: Sequence[str] = EMBEDDED, **environment: str
) -> Iterator[WebProcess]:
    """Start a web server with `environment` added to the session's, and stop it at the end."""
    with socket.create_server(("127.0.0.1", 0)) as listener, log.open("wb") as output:
        fd, port = listener.fileno(), listener.getsockname()[1]
        process = processes.start(
            [sys.executable, "-m", *(word.format(fd=fd) for word in module)],
            cwd=ROOT,
            env=os.environ
            | {
                "DJANGO_SETTINGS_MODULE": "config.settings.base",
                "PYTHONPATH": ".:platform:client",
                "DATABASE_URL": database_url(),
                **environment,
            },
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[fd],
        )
    web = WebProcess(port, process, log)
    try:
        deadline = time.monotonic() + 60
        while not web.is_live():
            assert time.monotonic() < deadline, web.log()
            time.sleep(0.05)
        yield web
    finally:
        process.kill()
        process.wait(10)
