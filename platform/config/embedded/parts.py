"""The parts of a deployment: start commands and readiness checks."""

import importlib.util
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import redis

from config.database_connections import JOB_PROCESSES
from config.embedded.children import SPARE, Child, Command, started, valkey_server
from config.embedded.postgres import Postgres
from config.embedded.process_watch import Part
from config.embedded.services import Folders
from rollouts.fleet import ray_internals
from rollouts.fleet.process import child_environment

# Embedded Valkey server on a unix socket, without persistence.

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
        command = self.prepare()
        return started(command, self.answers, log_folder=self._log_folder, seconds=START_SECONDS)

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


# Embedded Ray head, protected by a token.

LOOPBACK: Final = "127.0.0.1"


def is_ray_installed() -> bool:
    """Return whether this environment can run fleets."""
    return importlib.util.find_spec("ray") is not None


def free_port() -> int:
    """Return a free port on the loopback interface."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port


def free_ray_port() -> int:
    """Return a free port of the loopback interface; the next one, of the gateway, is free too."""
    while True:
        port = free_port()
        with socket.socket() as probe, suppress(OSError, OverflowError):
            probe.bind((LOOPBACK, port + 1))
            return port


def ray_head_command(
    *,
    address: str,
    cpus: int,
    temp_folder: Path,
    environment: Mapping[str, str],
    token_file: Path | None = None,
) -> Command:
    """Return the start command of the head with its gateway.

    Args:
        address: ``host:port`` to listen on.
        cpus: Number of CPUs of the cluster; an actor uses one.
        temp_folder: Private and short. A shared folder may hold files of a dead cluster, on which
            clients hang.
        environment: Source of the variables that the cluster's processes get: those for fleets and
            Ray's own.
        token_file: File with the cluster's token; with None it is in the environment.
    """
    host, _, port = address.partition(":")
    # Actors inherit the environment, so it holds no secret. With RAY_ADDRESS, `ray start` fails.
    left_out = {"RAY_ADDRESS", *(["RAY_AUTH_TOKEN"] if token_file else [])}
    rays_own = {
        name: value
        for name, value in environment.items()
        if name.startswith("RAY_") and name not in left_out
    }
    token = {"RAY_AUTH_TOKEN_PATH": str(token_file)} if token_file else {}
    words = [
        "--head",
        f"--node-ip-address={host}",
        f"--port={port}",
        f"--num-cpus={cpus}",
        f"--temp-dir={temp_folder}",
        "--include-dashboard=false",
        "--include-log-monitor=false",  # its output to drivers is not read
        "--disable-usage-stats",
        # Any free port, so that several deployments can run on one machine.
        "--min-worker-port=0",
        "--max-worker-port=0",
    ]
    return Command(
        name="ray",
        # The gateway starts the head, and ends with it.
        argv=(sys.executable, "-P", "-m", "rollouts.fleet.gateway.command", address, "--", *words),
        env={
            **ray_internals.HEALTH,
            **ray_internals.ON_LOOPBACK,
            **child_environment.for_fleets(environment),
            **rays_own,
            **token,
        },
        stop_signal=signal.SIGTERM,
        death_signal=signal.SIGTERM,
        stop_seconds=1.5,
    )


def answers(address: str) -> bool:
    """Return whether the head accepts connections."""
    host, _, port = address.partition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=0.5):
            return True
    except OSError:
        return False


def default_cpus() -> int:
    """Return the number of CPUs to offer: at least 2, as the demo needs two actors."""
    return max(os.cpu_count() or 1, 2)


# The parts of a deployment: start commands and readiness checks.

# By default glibc returns the memory of each large body to the kernel, and the next request
# faults in every page again, which takes 25 % of the CPU time of a 2 MB push. These settings
# keep freed memory up to these sizes.
MALLOC: Final = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "MALLOC_ARENA_MAX": "2",
}
# Celery's own ready line is missing at quiet log levels.
JOBS_READY_AFTER_SECONDS: Final = 8.0
BEAT_READY_AFTER_SECONDS: Final = 0.5


def postgres_part(postgres: Postgres) -> Part:
    """Return the PostgreSQL server."""
    return Part(name="postgres", prepare=postgres.prepare, is_ready=lambda _: postgres.answers())


def valkey_part(valkey: Valkey) -> Part:
    """Return the Valkey server, which is the broker."""
    return Part(name="valkey", prepare=valkey.prepare, is_ready=lambda _: valkey.answers())


def ray_part(
    *, address: str, cpus: int, temp_folder: Path, environment: Mapping[str, str], token_file: Path
) -> Part:
    """Return the head of the Ray cluster."""
    command = ray_head_command(
        address=address,
        cpus=cpus,
        temp_folder=temp_folder,
        environment=environment,
        token_file=token_file,
    )
    return Part(
        name="ray",
        is_essential=False,
        prepare=lambda: command,
        is_ready=lambda child: ray_internals.STARTED in child.logged() and answers(address),
        start_seconds=90.0,
    )


def web_part(listener: socket.socket, *, number: int, environment: Mapping[str, str]) -> Part:
    """Return one of the web processes, which share a bound socket; they are numbered from 1.

    A new process takes seconds to import the platform, so that a spare has done this.
    """
    command = Command(
        name="web" if number == 1 else f"web-{number}",
        argv=(sys.executable, "-P", "-m", "config.web", str(listener.fileno()), "1"),
        env={**MALLOC, **environment},
        death_signal=signal.SIGTERM,
        stop_seconds=3.0,
        pass_fds=(listener.fileno(),),
    )
    first_answer = FirstAnswer(listener)
    return Part(
        name="web",
        prepare=lambda: command,
        is_ready=lambda _: first_answer.has_answered(),
        spare=replace(command, name="web-spare", argv=(*command.argv, SPARE)),
    )


def default_web_processes() -> int:
    """Return the number of web processes for this machine's cores, at most 4.

    A process uses one core for Python, and about 150 MB of memory.
    """
    return min(os.cpu_count() or 1, 4)


def jobs_part(*, environment: Mapping[str, str]) -> Part:
    """Return the Celery worker that runs the background jobs."""
    command = _celery(
        "jobs",
        (
            "worker",
            f"--concurrency={JOB_PROCESSES}",
            "--pool=prefork",
            "--hostname=jobs@%h",
            "--without-gossip",
            "--without-mingle",
            "--loglevel=INFO",
        ),
        environment,
        # An idle worker takes 3 s to end by itself. Jobs take milliseconds and may end at any line.
        stop_seconds=1.0,
    )
    return Part(
        name="jobs",
        is_essential=False,
        prepare=lambda: command,
        is_ready=lambda child: (
            " ready." in child.logged() or _age(child) > JOBS_READY_AFTER_SECONDS
        ),
    )


def beat_part(folders: Folders, *, environment: Mapping[str, str]) -> Part:
    """Return Celery beat, which schedules the background jobs."""
    schedule = folders.run / "beat-schedule"
    words = ("beat", f"--schedule={schedule}", "--pidfile=", "--loglevel=INFO")
    command = _celery("beat", words, environment, stop_seconds=1.0)
    return Part(
        name="beat",
        is_essential=False,
        prepare=lambda: command,
        is_ready=lambda child: _age(child) > BEAT_READY_AFTER_SECONDS,
    )


class FirstAnswer:
    """A non-blocking wait for the first response of a web server.

    The listening socket exists before the server, so the request waits in its backlog.
    """

    def __init__(self, listener: socket.socket) -> None:
        host, port = listener.getsockname()[:2]
        self._address = ({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port)  # noqa: S104
        self._asked: socket.socket | None = None

    def has_answered(self) -> bool:
        """Return whether the server answers requests; repeats a failed request."""
        try:
            if self._asked is None:
                self._asked = socket.create_connection(self._address, timeout=0.5)
                self._asked.sendall(
                    b"GET /healthz/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                )
                self._asked.setblocking(False)
            answer = self._asked.recv(64)
        except BlockingIOError:
            return False
        except OSError:
            answer = b""
        if self._asked is not None:
            self._asked.close()
            self._asked = None
        # A setting of allowed hosts may turn this into a 400, which proves readiness too.
        return answer.startswith(b"HTTP/1.1 ") and answer[9:10] != b"5"


def _celery(
    name: str, words: tuple[str, ...], environment: Mapping[str, str], *, stop_seconds: float
) -> Command:
    return Command(
        name=name,
        argv=(sys.executable, "-P", "-m", "celery", "--app=config", *words),
        env=environment,
        # Even a cold shutdown waits for a broker that has died with the supervisor. The worker's
        # processes die with it (config.celery), and jobs may end at any line.
        death_signal=signal.SIGKILL,
        stop_seconds=stop_seconds,
    )


def _age(child: Child) -> float:
    return time.monotonic() - child.started_at
