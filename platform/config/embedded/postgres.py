"""Embedded PostgreSQL server on a unix socket."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psycopg

from config.embedded.children import (
    Child,
    Command,
    StartFailed,
    postgres_folder,
    started,
    unprivileged,
)
from rollouts.fleet.process import child_environment

USER: Final = "rolldeck"
DATABASE: Final = "rolldeck"
START_SECONDS: Final = 30.0
LEAST_CONNECTIONS: Final = 200


class Postgres:
    """A server with a data folder and a separate socket folder.

    Args:
        data_folder: Created at the first start.
        socket_folder: Private to this user and short: a socket's path has at most 107 bytes.
        connections: Number of connections that the deployment may open.
        is_disposable: Turns off fsync, for data discarded with its server, as in tests. Never
            set for a deployment.
    """

    def __init__(
        self,
        *,
        data_folder: Path,
        socket_folder: Path,
        log_folder: Path,
        connections: int = 0,
        is_disposable: bool = False,
    ) -> None:
        self._data_folder = data_folder
        self._socket_folder = socket_folder
        self._log_folder = log_folder
        self._connections = connections
        self._is_disposable = is_disposable

    @property
    def url(self) -> str:
        """URL of the deployment's database for libpq."""
        return f"postgresql:///{DATABASE}?host={quote(str(self._socket_folder))}&user={USER}"

    def start(self) -> Child:
        """Start the server and wait until it answers.

        Raises:
            StartFailed: With the reason, if the server cannot run on this data.
        """
        command = self.prepare()
        return started(command, self.answers, log_folder=self._log_folder, seconds=START_SECONDS)

    def prepare(self) -> Command:
        """Return the start command; initialize the data folder if it is empty.

        Raises:
            StartFailed: With the reason, if the server cannot run on this data.
        """
        binaries = postgres_folder()
        self._data_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        prefix = unprivileged((self._data_folder, self._socket_folder))
        if (self._data_folder / "PG_VERSION").is_file():
            _refuse_other_major(self._data_folder, binaries)
            _wait_for_predecessor(self._data_folder)
        else:
            _initialise(self._data_folder, binaries, prefix)
        return self._command(binaries, prefix)

    def answers(self) -> bool:
        """Return whether the database accepts queries; creates it if missing."""
        server = f"postgresql:///postgres?host={quote(str(self._socket_folder))}&user={USER}"
        try:
            with psycopg.connect(server, autocommit=True, connect_timeout=5) as connection:
                known = "SELECT 1 FROM pg_database WHERE datname = %s"
                if connection.execute(known, (DATABASE,)).fetchone() is None:
                    connection.execute(f'CREATE DATABASE "{DATABASE}"')
        except psycopg.OperationalError:
            return False
        return True

    def _command(self, binaries: Path, prefix: tuple[str, ...]) -> Command:
        # In a deployment, fsync and synchronous_commit keep their default: on.
        options = {
            "listen_addresses": "",
            # Hot data is cached and storage is SSD, so random reads cost little more than scans.
            "random_page_cost": "1.1",
            "unix_socket_directories": str(self._socket_folder),
            "unix_socket_permissions": "0700",
            "max_connections": str(max(LEAST_CONNECTIONS, self._connections)),
            "logging_collector": "off",
        }
        if self._is_disposable:
            options |= {"fsync": "off", "full_page_writes": "off"}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        return Command(
            name="postgres",
            env=child_environment.for_environments(os.environ),
            argv=(*prefix, str(binaries / "postgres"), "-D", str(self._data_folder), *words),
            # SIGINT requests a fast shutdown: it ends sessions and writes a checkpoint.
            stop_signal=signal.SIGINT,
            death_signal=signal.SIGINT,
            stop_seconds=3.0,
        )


def _initialise(data_folder: Path, binaries: Path, prefix: tuple[str, ...]) -> None:
    done = subprocess.run(
        [
            *prefix,
            str(binaries / "initdb"),
            f"--pgdata={data_folder}",
            f"--username={USER}",
            "--auth=trust",  # the socket folder admits only this user
            "--encoding=UTF8",
            "--locale=C.UTF-8",  # the wheel's build has no ICU
        ],
        env=child_environment.for_environments(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise StartFailed(f"initdb failed in {data_folder}:\n{done.stdout}{done.stderr}")


def _refuse_other_major(data_folder: Path, binaries: Path) -> None:
    stored = (data_folder / "PG_VERSION").read_text(encoding="ascii").strip()
    shown = subprocess.run(
        [str(binaries / "postgres"), "--version"], capture_output=True, text=True, check=True
    ).stdout
    ours = shown.split()[2].split(".")[0]
    if stored != ours:
        raise StartFailed(
            f"{data_folder} was written by PostgreSQL {stored}, and the installed server is "
            f"PostgreSQL {ours}. Dump it with the old version and load it into a new ROLLDECK_VAR, "
            "or set ROLLDECK_POSTGRES_BIN to the old version's programs."
        )


def _wait_for_predecessor(data_folder: Path) -> None:
    """Wait until the server of a supervisor just killed has written its checkpoint."""
    pid_file = data_folder / "postmaster.pid"
    deadline = time.monotonic() + 10.0
    while pid_file.is_file():
        first_line = pid_file.read_text(encoding="ascii").partition("\n")[0]
        command = b""
        if first_line.isdigit():
            with suppress(OSError):
                command = Path("/proc", first_line, "cmdline").read_bytes()
        if b"postgres" not in command:
            # Left by a crash. After a reboot another process may have this id, and PostgreSQL
            # would refuse to start; the lock on ROLLDECK_VAR proves that no server runs.
            pid_file.unlink(missing_ok=True)
            return
        if time.monotonic() > deadline:
            raise StartFailed(
                f"another PostgreSQL (process {first_line}) uses {data_folder}; stop it first"
            )
        time.sleep(0.05)
