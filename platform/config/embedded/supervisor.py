"""Start a whole deployment with one command, keep its parts running, and record their exits."""

import logging
import queue
import secrets
import shutil
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple, cast

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import OperationalError, connections, transaction
from django.db.backends.postgresql.base import DatabaseWrapper
from django.utils import timezone

from config import binding, env
from config.connections import raise_open_files
from config.database_connections import check_or_exit, needed
from config.embedded import parts
from config.embedded.children import StartFailed
from config.embedded.parts import Valkey
from config.embedded.postgres import Postgres
from config.embedded.process_watch import PrintLine, ProcessWatch, StopRequested
from config.embedded.schema import adopt_bootstrap_token, migrate
from config.embedded.services import Folders, Services, manage_command, write_private
from config.own_folders import ForeignFolder, claim_folders
from rollouts.fleet import ray_internals
from rollouts.fleet.process import child_environment
from runs.deployment.models import ProcessHeartbeat
from runs.deployment.services import record_exit, record_failed_check

logger = logging.getLogger(__name__)


# Find processes of this deployment that run but send no heartbeats.

EVERY_SECONDS: Final = 15.0
HUNG_SECONDS: Final = 60.0
"""Time without a new heartbeat; processes send one every 15 seconds."""

ReadHeartbeats = Callable[[], Mapping[int, datetime]]
"""Returns the time of the last heartbeat by process id, or raises if the database is away."""


class HangWatch:
    """Watch over heartbeats, read in a thread.

    Only changes count, on the clock of this process: neither a wrong clock nor a suspended machine
    looks like a hang. A process that has sent no heartbeat yet is not hung.
    """

    def __init__(self, read: ReadHeartbeats) -> None:
        self._read = read
        self._seen: dict[int, tuple[datetime, float]] = {}
        """Last heartbeat, and since when it is the last one."""
        self._hung: frozenset[int] = frozenset()

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="rolldeck-hang-watch", daemon=True).start()

    def is_hung(self, pid: int) -> bool:
        """Return whether a process has stopped to send heartbeats."""
        return pid in self._hung

    def update(self, now: float) -> None:
        """Read the heartbeats once; without a database, the time of all begins again.

        Args:
            now: Monotonic seconds.
        """
        try:
            heartbeats = self._read()
        except Exception as error:  # noqa: BLE001 any outage of the database
            logger.debug("heartbeats not read: %s", error)
            heartbeats = {}
        last = self._seen
        self._seen = {
            pid: last[pid] if pid in last and last[pid][0] == at else (at, now)
            for pid, at in heartbeats.items()
        }
        self._hung = frozenset(
            pid for pid, (_, since) in self._seen.items() if now - since >= HUNG_SECONDS
        )

    def _run(self) -> None:
        while True:
            began = time.monotonic()
            self.update(began)
            time.sleep(EVERY_SECONDS)
            if time.monotonic() - began > 2 * EVERY_SECONDS:
                self._seen = {}  # this process was stopped too


# Store why parts of the deployment exited, for *Cluster* and alerts.

RETRY_SECONDS: Final = 5.0
MOST_WAITING: Final = 100


class Exit(NamedTuple):
    """The exit of a part."""

    part: str
    reason: str
    log: str
    """Its last lines."""
    at: datetime


class ExitRecords:
    """Exits that a thread stores in the background, as the database may be restarting too.

    Args:
        close: Closes the thread's database connections.
    """

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self._waiting: queue.Queue[Exit] = queue.Queue(MOST_WAITING)

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="rolldeck-exit-records", daemon=True).start()

    def add(self, part: str, reason: str, log: str) -> None:
        """Store an exit as soon as the database is available; never waits."""
        try:
            self._waiting.put_nowait(Exit(part, reason, log, timezone.now()))
        except queue.Full:
            logger.warning("exit of %s not recorded: %d wait for the database", part, MOST_WAITING)

    def _run(self) -> None:
        while True:
            exited, is_stored = self._waiting.get(), False
            while not is_stored:
                try:
                    store(exited)
                    is_stored = True
                except Exception as error:  # noqa: BLE001 any outage of the database
                    logger.debug("exit of %s not recorded yet: %s", exited.part, error)
                finally:
                    self._close()
                if not is_stored:
                    time.sleep(RETRY_SECONDS)


@transaction.atomic
def store(found: Exit) -> None:
    """Store an exit; Ray is also shown as down, as it sends no heartbeats of its own."""
    record_exit(
        host=socket.gethostname(), part=found.part, reason=found.reason, log=found.log, now=found.at
    )
    if found.part == "ray":
        record_failed_check(
            kind="ray", name=settings.RAY_ADDRESS, problem=found.reason, now=found.at
        )


# Start all parts of a deployment, keep them running, and stop them in order.

# The first ones use the last ones.
STOP_ORDER: Final = (("web", "jobs", "beat"), ("valkey", "postgres"))
# Ray takes longest, and uses neither database nor broker.
STOPPED_MEANWHILE: Final = ("ray",)
RESERVED_CONNECTIONS: Final = 3
"""Connections that PostgreSQL keeps free for superusers."""


class Supervisor:
    """A deployment that runs in the foreground.

    Args:
        print_line: Writes one line to the console.
        has_fleets: Whether runs may have fleets; without, Ray is neither started nor connected to.
    """

    def __init__(self, *, print_line: PrintLine, has_fleets: bool = True) -> None:
        self._print = print_line
        self._has_fleets = has_fleets
        self._folders = Folders(settings.ROLLDECK_VAR)
        self._hang_watch = HangWatch(read_heartbeats)
        self._exits = ExitRecords(_close_database)
        self._watch = ProcessWatch(
            log_folder=self._folders.log,
            print_line=print_line,
            is_hung=self._hang_watch.is_hung,
            report_failure=self._exits.add,
        )

    def run(self) -> None:
        """Run until SIGTERM or Ctrl-C.

        Raises:
            StartFailed: With the reason, if it cannot start; all its processes have ended.
        """
        child_environment.hide_this_process()
        self._watch.handle_signals()
        self._folders.create()
        self._folders.create_payloads()
        lock = self._folders.lock()
        sockets = self._folders.new_socket_folder()
        try:
            with _listener() as listener:
                self._start(listener, sockets)
                self._watch.run()
            self._print("Stopping …")
        except StopRequested:
            self._print("Stopping …")
        finally:
            self._watch.stop(order=STOP_ORDER, meanwhile=STOPPED_MEANWHILE)
            self._folders.services.unlink(missing_ok=True)
            self._folders.remove_socket_folder(sockets)
            lock.close()

    def _start(self, listener: socket.socket, sockets: Path) -> None:
        given = Services.from_environment(secret_key_file=self._folders.var / "secret_key")
        _refuse_settings(given)
        self._print(f"Data folder: {self._folders.var}")
        self._print(f"Open files per process: {raise_open_files()}")
        services = self._start_servers(given, sockets)
        services.adopt()
        services.write(self._folders.services)
        if applied := migrate():
            self._watch.report_ready("schema", f"{applied} migrations")
        self._watch.continue_or_stop()
        self._claim_folders()
        adopt_bootstrap_token()
        self._exits.start()
        environment = services.child_environment(
            base_folder=settings.BASE_DIR, var=self._folders.var
        )
        has_ray = bool(not given.ray_address and services.ray_address)
        if has_ray:
            environment |= ray_internals.ON_LOOPBACK
        if given.database_url:
            check_or_exit(web_processes=web_processes())
        for number in range(1, web_processes() + 1):
            self._watch.start(parts.web_part(listener, number=number, environment=environment))
        self._watch.start(parts.jobs_part(environment=environment))
        self._watch.start(parts.beat_part(self._folders, environment=environment))
        self._watch.wait_until_ready(["web"])
        names = ["jobs", "beat"]
        if has_ray:
            self._start_ray(services, sockets, environment)
            names.append("ray")
        self._watch.wait_until_ready(names)
        self._print_addresses(services)
        _close_database()
        self._hang_watch.start()

    def _start_servers(self, given: Services, sockets: Path) -> Services:
        """Start the servers that the environment does not name; return the addresses of all."""
        services, names = given, []
        if not given.redis_url:
            valkey = Valkey(socket_folder=sockets, log_folder=self._folders.log)
            self._watch.start(parts.valkey_part(valkey))
            services = replace(services, redis_url=valkey.url)
            names.append("valkey")
        if not given.database_url:
            postgres = Postgres(
                data_folder=self._folders.postgres,
                socket_folder=sockets,
                log_folder=self._folders.log,
                connections=needed(web_processes=web_processes()) + RESERVED_CONNECTIONS,
            )
            self._watch.start(parts.postgres_part(postgres))
            services = replace(services, database_url=postgres.url)
            names.append("postgres")
        self._watch.wait_until_ready(names)
        # PostgreSQL runs as an unprivileged user if the server is root.
        user, database = child_environment.environment_user(), self._folders.postgres
        if user is not None and database.is_dir() and database.stat().st_uid == user.uid:
            raise StartFailed(
                f"{child_environment.USER_VARIABLE} is {user.name!r}, which owns {database}; name "
                "another user"
            )
        if not self._has_fleets:
            return replace(services, ray_address="", ray_token="")
        if not given.ray_address and parts.is_ray_installed():
            services = replace(
                services,
                ray_address=f"{parts.LOOPBACK}:{parts.free_ray_port()}",
                ray_token=given.ray_token or secrets.token_hex(32),
            )
        return services

    def _claim_folders(self) -> None:
        try:
            claim_folders(now=timezone.now())
        except ForeignFolder as error:
            raise StartFailed(str(error)) from error
        except OSError as error:  # a bucket that does not answer
            self._print(f"  folders not compared with the database: {error}")

    def _start_ray(self, services: Services, sockets: Path, environment: Mapping[str, str]) -> None:
        cpus = env.integer("ROLLDECK_RAY_CPUS", parts.default_cpus(), at_least=1)
        folder = sockets / "r"
        shutil.rmtree(folder, ignore_errors=True)
        token_file = self._folders.run / "ray_token"
        write_private(token_file, services.ray_token)
        self._watch.start(
            parts.ray_part(
                address=services.ray_address,
                cpus=cpus,
                temp_folder=folder,
                environment=environment,
                token_file=token_file,
            )
        )

    def _print_addresses(self, services: Services) -> None:
        if not self._has_fleets:
            self._print("  Only the buffer: outside runs work, and fleets cannot be launched.")
        elif not services.ray_address:
            self._print("  Ray is not installed: fleets cannot be launched. Outside runs work.")
        self._print(f"Ready on {settings.ROLLDECK_PUBLIC_URL}  (logs: {self._folders.log})")
        try:
            has_users = get_user_model().objects.exists()
        except OperationalError:
            # PostgreSQL has just died and is being restarted; the hint is not essential.
            has_users = True
        if not has_users:
            self._print(
                "No account exists yet. Create one in another terminal:\n"
                f"  {manage_command('createsuperuser')}"
            )


def web_processes() -> int:
    """Return the number of web processes."""
    return env.integer(
        "ROLLDECK_WEB_WORKERS", parts.default_web_processes(), at_least=1, at_most=64
    )


def _listener() -> socket.socket:
    """Return a socket that listens on the configured address.

    Raises:
        StartFailed: If the address is in use or not available.
    """
    host, port = settings.ROLLDECK_HOST, settings.ROLLDECK_PORT
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError as error:
        raise StartFailed(
            f"cannot listen on {host}:{port}: {error.strerror}. Another program may use the port; "
            "set ROLLDECK_PORT to a free one."
        ) from error
    return listener


def _refuse_settings(services: Services) -> None:
    """Check that the settings are safe, and that the user of environment code can be used.

    Raises:
        StartFailed: With the reason.
    """
    found = binding.dangers(
        host=settings.ROLLDECK_HOST,
        auth=settings.ROLLDECK_AUTH,
        debug=settings.DEBUG,
        has_own_secret=services.secret_key != settings.INSECURE_SECRET_KEY,
        has_proxy=binding.has_proxy(),
    )
    if found:
        raise StartFailed("\n".join(found))
    try:
        user = child_environment.environment_user()
        if user is not None:
            user.check()
    except OSError as error:
        raise StartFailed(str(error)) from error


def read_heartbeats() -> dict[int, datetime]:
    """Return the last heartbeat of each process of this machine, by process id."""
    try:
        rows = ProcessHeartbeat.objects.filter(
            host=socket.gethostname(), kind__in=("web", "worker", "scheduler"), pid__isnull=False
        )
        return {row.pid: row.confirmed_at for row in rows.order_by("confirmed_at") if row.pid}
    finally:
        _close_database()


def _close_database() -> None:
    """Close the connections; an idle pool would only reconnect through restarts."""
    database = cast(DatabaseWrapper, connections["default"])
    database.close()
    database.close_pool()
