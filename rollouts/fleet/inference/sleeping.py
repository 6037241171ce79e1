"""Put the engines of a server to sleep while no worker needs them.

Each worker that uses the engines holds a shared lock of a file in the folder, which ends with its
process. The last worker that comes to rest puts them to sleep, and the next one that needs them
wakes them.
"""

import fcntl
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import httpx

from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.inference.reloading import post
from rollouts.fleet.inference.replicas import Replicas
from rollouts.fleet.inference.shared_folder import locked

IN_USE: Final = ".rolldeck_in_use"
ASLEEP: Final = "rolldeck_asleep"
"""File that exists while the engines may be asleep."""


class Routes(NamedTuple):
    """Requests of a kind of server."""

    sleep: tuple[str, dict[str, Any] | None]
    wake: tuple[str, dict[str, Any] | None]


ROUTES: Final = {
    # Requests of other clients finish first.
    "vllm": Routes(sleep=("/sleep?level=1&mode=wait", None), wake=("/wake_up", None)),
    "sglang": Routes(
        sleep=("/release_memory_occupation", {}), wake=("/resume_memory_occupation", {})
    ),
}
"""Source: ``vllm/entrypoints/serve/dev/sleep`` in vLLM, and ``entrypoints/http_server.py`` in
SGLang."""


class SharedSleep:
    """Sleep of the engines that read weights from a folder; thread-safe."""

    def __init__(self, folder: Path, replicas: Mapping[str, httpx.Client], *, kind: str) -> None:
        self._folder, self._routes = folder, ROUTES[kind]
        self._replicas = Replicas(replicas)
        self._lock = threading.Lock()
        self._used: IO[bytes] | None = None

    def wake(self) -> None:
        """Wake the engines if they are asleep, and keep them awake until `rest`.

        Raises:
            InferenceFailed: If an engine refuses, or none can be reached.
        """
        with self._lock:
            if self._used is not None:
                return
            used = self._opened()
            try:
                fcntl.flock(used, fcntl.LOCK_SH)
                with locked(self._folder):
                    if (self._folder / ASLEEP).exists():
                        self._replicas.ask(lambda http: _request(http, *self._routes.wake))
                        (self._folder / ASLEEP).unlink()
            except BaseException:
                used.close()
                raise
            self._used = used

    def rest(self) -> None:
        """Put the engines to sleep, unless another worker uses them.

        Nothing changes if this worker has not used them since its last rest.

        Raises:
            InferenceFailed: If an engine refuses, or none can be reached.
        """
        with self._lock:
            if self._used is None:
                return
            self._used.close()
            self._used = None
            with locked(self._folder), self._opened() as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return
                # Before the request: an engine that is asleep must be woken after a crash, too.
                (self._folder / ASLEEP).touch()
                self._replicas.ask(lambda http: _request(http, *self._routes.sleep))

    def close(self) -> None:
        """End the use of the engines; they stay as they are."""
        if self._used is not None:
            self._used.close()

    def _opened(self) -> IO[bytes]:
        try:
            return (self._folder / IN_USE).open("ab")
        except OSError as error:
            raise InferenceFailed(f"weights_directory: {error}") from error


def _request(http: httpx.Client, path: str, body: dict[str, Any] | None) -> None:
    response = post(http, path, body)
    if response.status_code != 200:
        raise InferenceFailed(f"sleep: POST {path}: {response.status_code} {response.text[:500]}")
