"""Faults of a server of this machine: its processes, its database, its files."""

import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
import redis

from rolldeck.chaos.campaign import Fault
from rolldeck.chaos.proxy import NetworkFault, Proxy
from tests.chaos.server import ChaosServer

Heal = Callable[[], None]
WEB: Final = ("config.web",)
WORKER: Final = ("celery", "worker")
SCHEDULER: Final = ("celery", "beat")
POSTGRES: Final = ("postgres", "-D")
VALKEY: Final = ("valkey",)
RAY: Final = ("gcs_server",)
RAYLET: Final = ("raylet/raylet",)
MANAGER: Final = ("ray::ManagerActor",)
FLEET_WORKER: Final = ("ray::WorkerActor",)
GATEWAY: Final = ("rollouts.fleet.gateway.command",)
FEW_DESCRIPTORS: Final = 8
REPEATED_KILLS: Final = 5
MOST_CONNECTIONS: Final = 400
LITTLE_MEMORY: Final = 16 << 20
FROZEN_SECONDS: Final = 0.4
THAWED_SECONDS: Final = 0.2
STEP_SECONDS: Final = 600
STORAGE_FAULTS: Final[tuple[NetworkFault, ...]] = ("refuse", "reset", "silence", "cut_answer")


def local_faults(server: ChaosServer) -> list[Fault]:
    """Return the faults of a server's processes, database and files."""
    found = [
        Fault("kill one web process", lambda: kill(server, WEB, most=1), (1, 2), 10),
        Fault("kill all web processes", lambda: kill(server, WEB), (1, 2), 20),
        Fault("kill web again and again", lambda: kill_repeatedly(server, WEB), (0, 0), 45),
        Fault("stop one web process", lambda: stop(server, WEB, most=1), (3, 12)),
        Fault("stop all web processes", lambda: stop(server, WEB), (3, 12)),
        Fault("kill the worker", lambda: kill(server, WORKER), (1, 2)),
        Fault("stop the worker", lambda: stop(server, WORKER), (3, 8)),
        Fault("kill the scheduler", lambda: kill(server, SCHEDULER), (1, 2)),
        Fault("kill PostgreSQL", lambda: kill(server, POSTGRES, most=1), (1, 2), 15),
        Fault("kill a session of PostgreSQL", lambda: kill_session(server), (1, 2), 15),
        Fault("end the sessions of PostgreSQL", lambda: end_sessions(server)),
        Fault("stop PostgreSQL", lambda: stop_tree(server, POSTGRES), (3, 12)),
        Fault(
            "restart PostgreSQL (immediate)",
            lambda: restart_postgres(server, signal.SIGQUIT),
            (0, 1),
            20,
        ),
        Fault(
            "restart PostgreSQL (fast)", lambda: restart_postgres(server, signal.SIGINT), (0, 1), 20
        ),
        Fault("lock the table of groups", lambda: lock(server, GROUPS_LOCK), (2, 6)),
        Fault("lock the rows of the runs", lambda: lock(server, RUNS_LOCK), (2, 6)),
        Fault("take all connections", lambda: take_connections(server), (2, 6)),
        Fault("kill Valkey", lambda: kill(server, VALKEY), (1, 2)),
        Fault("stop Valkey", lambda: stop(server, VALKEY), (3, 12)),
        Fault("flush Valkey", lambda: flush_valkey(server)),
        Fault("few descriptors", lambda: limit_descriptors(server), (3, 8)),
        Fault("little memory for web", lambda: limit_memory(server), (3, 8), 20),
        Fault("kill the supervisor", lambda: restart(server, signal.SIGKILL), (0, 1), 60),
        Fault("restart the server", lambda: restart(server, signal.SIGTERM), (0, 1), 60),
        Fault("start a second server", lambda: start_a_second(server)),
    ]
    if server.disk is not None:
        disk = server.disk
        found += [
            Fault("fill the disk", lambda: fill_disk(server), (4, 10), 30),
            Fault("freeze the disk", lambda: freeze_disk(disk, thawed=0.0), (2, 5)),
            Fault("slow the disk", lambda: freeze_disk(disk, thawed=THAWED_SECONDS), (4, 10)),
        ]
    if server.clock is not None:
        clock = server.clock
        found += [
            Fault("clock forward", lambda: step_clock(clock, STEP_SECONDS), (3, 8)),
            Fault("clock back", lambda: step_clock(clock, -STEP_SECONDS), (3, 8)),
        ]
    if server.storage is not None:
        storage = server.storage
        found += [
            Fault(f"object storage: {kind}", partial(break_proxy, storage, kind), (3, 8), 20)
            for kind in STORAGE_FAULTS
        ]
    if server.has_ray:
        found += [
            Fault("kill the head of Ray", lambda: kill(server, RAY), (1, 2)),
            Fault("stop the head of Ray", lambda: stop(server, RAY), (3, 8)),
            Fault("kill the gateway", lambda: kill(server, GATEWAY), (1, 2)),
            Fault("kill the node of Ray", lambda: kill(server, RAYLET), (1, 2)),
            Fault("stop the node of Ray", lambda: stop(server, RAYLET), (3, 8)),
            Fault("kill the manager of the fleet", lambda: kill(server, MANAGER), (1, 2)),
            Fault("stop the manager of the fleet", lambda: stop(server, MANAGER), (3, 8)),
            Fault("kill a worker of the fleet", lambda: kill(server, FLEET_WORKER), (1, 2)),
        ]
    return found


def left_out(server: ChaosServer, reasons: list[str]) -> list[str]:
    """Return the faults that a campaign cannot inject, with their reasons."""
    found = list(reasons)
    if server.disk is None:
        found.append("disk full, frozen and slow: a loop device cannot be mounted")
    if not server.has_ray:
        found.append("Ray and fleets: without --ray")
    if server.storage is None:
        found.append("object storage: without --s3")
    return found


GROUPS_LOCK: Final = "LOCK TABLE buffer_trajectorygroup IN ACCESS EXCLUSIVE MODE"
RUNS_LOCK: Final = "SELECT id FROM runs_run FOR UPDATE"


def _nothing() -> None:
    """Heal a fault that ended by itself."""


def _signalled(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def kill(server: ChaosServer, words: tuple[str, ...], most: int | None = None) -> Heal:
    """Kill processes with SIGKILL; the supervisor restarts them."""
    _signalled(server.children(*words)[:most], signal.SIGKILL)
    return _nothing


def kill_repeatedly(server: ChaosServer, words: tuple[str, ...]) -> Heal:
    """Kill processes whenever they are back."""
    for _ in range(REPEATED_KILLS):
        kill(server, words)
        time.sleep(2.0)
    return _nothing


def stop(server: ChaosServer, words: tuple[str, ...], most: int | None = None) -> Heal:
    """Stop processes with SIGSTOP, until they are healed."""
    pids = server.children(*words)[:most]
    _signalled(pids, signal.SIGSTOP)
    return lambda: _signalled(pids, signal.SIGCONT)


def stop_tree(server: ChaosServer, words: tuple[str, ...]) -> Heal:
    """Stop processes with their children."""
    pids = [pid for parent in server.children(*words) for pid in _tree(parent)]
    _signalled(pids, signal.SIGSTOP)
    return lambda: _signalled(pids, signal.SIGCONT)


def _tree(pid: int) -> list[int]:
    with suppress(psutil.NoSuchProcess):
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    return []


def _session(server: ChaosServer) -> "psycopg.Connection[Any]":
    return psycopg.connect(server.services()["DATABASE_URL"], autocommit=True, connect_timeout=5)


def kill_session(server: ChaosServer) -> Heal:
    """Kill a backend of PostgreSQL, which restarts all of them."""
    with suppress(psycopg.Error), _session(server) as session:
        row = session.execute(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
            " AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
        ).fetchone()
        if row is not None:
            _signalled([row[0]], signal.SIGKILL)
    return _nothing


def end_sessions(server: ChaosServer) -> Heal:
    """Terminate all sessions of the database."""
    with suppress(psycopg.Error), _session(server) as session:
        session.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
    return _nothing


def restart_postgres(server: ChaosServer, number: int) -> Heal:
    """Stop PostgreSQL as `pg_ctl stop -m fast` or `-m immediate` do; the supervisor starts it."""
    _signalled(server.children(*POSTGRES)[:1], number)
    return _nothing


def lock(server: ChaosServer, statement: str) -> Heal:
    """Hold a lock in a transaction."""
    stack = ExitStack()
    with suppress(psycopg.Error):
        session = stack.enter_context(_session(server))
        stack.enter_context(session.transaction())
        session.execute("SET LOCAL lock_timeout = '5s'")
        session.execute(statement)

    def heal() -> None:
        with suppress(psycopg.Error):
            stack.close()

    return heal


def take_connections(server: ChaosServer) -> Heal:
    """Open sessions until PostgreSQL refuses more."""
    stack = ExitStack()
    with suppress(psycopg.Error):
        for _ in range(MOST_CONNECTIONS):
            stack.enter_context(_session(server))

    def heal() -> None:
        with suppress(psycopg.Error):
            stack.close()

    return heal


def flush_valkey(server: ChaosServer) -> Heal:
    """Delete everything in Valkey."""
    with suppress(redis.RedisError), redis.Redis.from_url(server.services()["REDIS_URL"]) as client:
        client.flushall()
    return _nothing


def limit_descriptors(server: ChaosServer) -> Heal:
    """Leave the web processes few more descriptors than they have open."""
    before = {}
    for pid in server.children(*WEB):
        with suppress(OSError):
            now = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            before[pid] = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            limits = (now + FEW_DESCRIPTORS, before[pid][1])
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

    def heal() -> None:
        for pid, limits in before.items():
            with suppress(OSError):
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

    return heal


def limit_memory(server: ChaosServer) -> Heal:
    """Leave the web processes little more address space than they use."""
    before = {}
    for pid in server.children(*WEB):
        with suppress(OSError, psutil.NoSuchProcess):
            used = psutil.Process(pid).memory_info().vms
            before[pid] = resource.prlimit(pid, resource.RLIMIT_AS)
            resource.prlimit(pid, resource.RLIMIT_AS, (used + LITTLE_MEMORY, before[pid][1]))

    def heal() -> None:
        for pid, limits in before.items():
            with suppress(OSError):
                resource.prlimit(pid, resource.RLIMIT_AS, limits)

    return heal


def restart(server: ChaosServer, number: int) -> Heal:
    """End the supervisor with a signal, and start the server again."""
    server.process.send_signal(number)
    server.process.wait(120)
    server.start()
    return _nothing


def start_a_second(server: ChaosServer) -> Heal:
    """Start a second server on the same folder, which must be refused."""
    code = server.start_another()
    if code == 0:
        raise AssertionError("a second server started on the folder of a running one")
    return _nothing


def fill_disk(server: ChaosServer) -> Heal:
    """Fill the disk of the data folder to the last byte."""
    assert server.disk is not None
    ballast = server.disk / "ballast"
    space = os.statvfs(server.disk)
    with suppress(OSError), ballast.open("wb") as file:
        # Written bytes would take a minute; the last ones are, because others write too.
        with suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, space.f_bfree * space.f_frsize)
        file.seek(0, os.SEEK_END)
        while True:
            file.write(bytes(1 << 20))
    return lambda: ballast.unlink(missing_ok=True)


def freeze_disk(disk: Path, *, thawed: float) -> Heal:
    """Freeze the disk; with `thawed`, again and again with this many seconds between."""
    is_over = threading.Event()

    def run() -> None:
        while not is_over.is_set():
            subprocess.run(["fsfreeze", "--freeze", disk], capture_output=True, check=False)
            is_over.wait(FROZEN_SECONDS if thawed else None)
            thaw(disk)
            is_over.wait(thawed)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def heal() -> None:
        is_over.set()
        thread.join()

    return heal


def thaw(disk: Path) -> None:
    """End a freeze of a disk, if there is one."""
    subprocess.run(["fsfreeze", "--unfreeze", disk], capture_output=True, check=False)


def step_clock(clock: Path, seconds: int) -> Heal:
    """Step the clock of the server's Python processes; monotonic clocks run on."""
    clock.write_text(f"{seconds:+d}\n", encoding="ascii")

    def heal() -> None:
        clock.write_text("+0\n", encoding="ascii")

    return heal


def break_proxy(proxy: Proxy, kind: NetworkFault) -> Heal:
    """Inject a fault of the network in front of a server."""
    proxy.set_fault(kind)
    return lambda: proxy.set_fault("none")
