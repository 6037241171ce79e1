"""The parts of a deployment: start commands and readiness checks."""

import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from config.embedded import ray_head
from config.embedded.children import Child, Command
from config.embedded.folders import Folders
from config.embedded.postgres import Postgres
from config.embedded.process_watch import Part
from config.embedded.valkey import Valkey

JOB_PROCESSES: Final = 2
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
    *,
    address: str,
    cpus: int,
    temp_folder: Path,
    environment: Mapping[str, str],
    token_file: Path,
) -> Part:
    """Return the head of the Ray cluster."""
    command = ray_head.command(
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
        is_ready=lambda child: (
            "Ray runtime started" in child.logged() and ray_head.answers(address)
        ),
        start_seconds=90.0,
    )


def web_part(listener: socket.socket, *, number: int, environment: Mapping[str, str]) -> Part:
    """Return one of the web processes, which share a bound socket; they are numbered from 1."""
    command = Command(
        name="web" if number == 1 else f"web-{number}",
        argv=(
            sys.executable,
            "-m",
            "config.web",
            str(listener.fileno()),
            "1",
        ),
        env={**MALLOC, **environment},
        death_signal=signal.SIGTERM,
        stop_seconds=3.0,
        pass_fds=(listener.fileno(),),
    )
    first_answer = FirstAnswer(listener)
    return Part(name="web", prepare=lambda: command, is_ready=lambda _: first_answer.has_answered())


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
        argv=(sys.executable, "-m", "celery", "--app=config", *words),
        env=environment,
        # Even a cold shutdown waits for a broker that has died with the supervisor. The worker's
        # processes die with it (config.celery), and jobs may end at any line.
        death_signal=signal.SIGKILL,
        stop_seconds=stop_seconds,
    )


def _age(child: Child) -> float:
    return time.monotonic() - child.started_at
