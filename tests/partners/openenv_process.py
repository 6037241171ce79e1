"""OpenEnv server of the guessing game in a process of its own, and a policy that wins it."""

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.waiting import eventually

PARTNERS = Path(__file__).resolve().parents[2] / ".partners"


@contextmanager
def guessing_server(environment: str) -> Iterator[str]:
    """Serve the game with the packages of a partner's environment; yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    python = PARTNERS / environment / "bin" / "python"
    script = Path(__file__).with_name("guessing_server.py")
    with subprocess.Popen([python, script, str(port)]) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            eventually(lambda: _is_up(url), seconds=60)
            yield url
        finally:
            process.terminate()


def _is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/schema").status_code == 200
    except httpx.HTTPError:
        return False


def bisect(prompt: str) -> str:
    """Return the next guess between 0 and 9, as JSON."""
    low, high = 0, 9
    for hint in re.findall(r'"hint": "(higher|lower)"', prompt):
        middle = (low + high) // 2
        low, high = (middle + 1, high) if hint == "higher" else (low, middle - 1)
    return json.dumps({"number": (low + high) // 2})
