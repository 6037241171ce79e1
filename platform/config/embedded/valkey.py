"""Embedded Valkey server on a unix socket, without persistence."""

import os
import signal
import time
from pathlib import Path
from typing import Final

import redis

from config.embedded.binaries import valkey_server
from config.embedded.children import Child, Command, StartFailed
from rollouts.fleet.process import child_environment

START_SECONDS: Final = 10.0


class Valkey:
    """A server for notifications and the job queue; its content may be lost at any time.

    Args:
        socket_folder: Private to this user and short.
    """

    def __init__(self, *, socket_folder: Path, log_folder: Path) -> None:
        self._socket = socket_folder / "valkey.sock"
        self._log_folder = log_folder

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"unix://{self._socket}"

    def start(self) -> Child:
        """Start the server and wait until it answers.

        Raises:
            StartFailed: If it ends first or is not ready in time.
        """
        child = Child(self.prepare(), log_folder=self._log_folder)
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if child.exit_code is not None or time.monotonic() > deadline:
                child.stop()
                raise StartFailed(f"Valkey did not start; its log ends:\n{child.last_lines()}")
            time.sleep(0.01)
        return child

    def prepare(self) -> Command:
        """Return the start command."""
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "save": "",
            "appendonly": "no",
            "dir": str(self._socket.parent),
            "daemonize": "no",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        return Command(
            name="valkey",
            env=child_environment.for_environments(os.environ),
            argv=(str(valkey_server()), *words),
            death_signal=signal.SIGTERM,
            stop_seconds=1.0,
        )

    def answers(self) -> bool:
        """Return whether the server answers."""
        client = redis.Redis.from_url(self.url, socket_timeout=2.0)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()
