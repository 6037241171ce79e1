"""Server with recorded runs whose clock stands still, for pictures that never differ.

``python -m tests.e2e.frozen_server VAR PORT`` serves the dashboard until Ctrl-C. PostgreSQL,
Valkey, the application and its sockets are real, and so is the data: the backup of a server with
real fleets and trainers (tests/recorded_runs). Every clock returns `AT`, the time of the backup,
and random identifiers come from one generator with a fixed seed, so that every start serves the
same data. No job and no fleet runs, so nothing changes it.
"""

import json
import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psycopg
import uvicorn

from config.embedded.parts import Valkey
from config.embedded.postgres import Postgres
from config.embedded.services import socket_folder
from tests.initial_database import copy_database
from tests.recorded_runs.recording import recorded_at, unpack
from tests.server import NO_RAY, ROOT

AT: Final = recorded_at()
"""Time of the server and of its pages."""
# Functions of PostgreSQL's clock. `CURRENT_TIMESTAMP` is a keyword and cannot be replaced; no query
# uses it.
CLOCKS: Final = ("now", "statement_timestamp", "transaction_timestamp", "clock_timestamp")
INFERENCE_SERVERS: Final = {"local": {"kind": "rolldeck", "url": "http://127.0.0.1:8001"}}


def main(var: Path, port: int) -> None:
    """Start the services, restore the recorded runs, and serve until Ctrl-C."""
    with services(var) as addresses:
        os.environ |= addresses | {
            "DJANGO_SETTINGS_MODULE": "config.settings.base",
            "RAY_ADDRESS": NO_RAY,
            "ROLLDECK_VAR": str(var),
            "ROLLDECK_PORT": str(port),
            "ROLLDECK_INFERENCE_SERVERS": json.dumps(INFERENCE_SERVERS),
        }
        restore(var)
        os.environ["RAY_ADDRESS"] = recorded_cluster(addresses["DATABASE_URL"])
        stop_clock(addresses["DATABASE_URL"])
        fix_identifiers()
        from config.asgi import application  # after the clock stands still

        answer_for_workers()
        serve(application, port)


@contextmanager
def services(var: Path) -> Iterator[dict[str, str]]:
    """Start PostgreSQL and Valkey; yield the variables with their addresses."""
    copy_database(var / "postgres")
    sockets, log = socket_folder(), var / "log"
    postgres = Postgres(
        data_folder=var / "postgres", socket_folder=sockets, log_folder=log, is_disposable=True
    )
    valkey = Valkey(socket_folder=sockets, log_folder=log)
    running = [postgres.start(), valkey.start()]
    try:
        yield {"DATABASE_URL": postgres.url, "REDIS_URL": valkey.url}
    finally:
        for child in reversed(running):
            child.stop()
        shutil.rmtree(sockets, ignore_errors=True)


def restore(var: Path) -> None:
    """Restore the recorded runs with the command that administrators use."""
    command = [sys.executable, "manage.py", "restore_backup", str(unpack(var / "recorded"))]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def recorded_cluster(database_url: str) -> str:
    """Return the address of the Ray cluster whose state was recorded; no process connects to it."""
    with psycopg.connect(database_url) as connection:
        found = connection.execute("SELECT name FROM runs_processheartbeat WHERE kind = 'ray'")
        [address] = found.fetchone() or [NO_RAY]
    return str(address)


def stop_clock(database_url: str) -> None:
    """Replace Django's clock and PostgreSQL's; call it before Django's applications load."""
    from django.utils import timezone

    timezone.now = lambda: AT  # noqa: TID251 replaced, not read
    with psycopg.connect(database_url, autocommit=True) as connection:
        # The restore happens at another time in each start.
        connection.execute("DELETE FROM runs_runevent WHERE kind = 'server_restored'")
        connection.execute("CREATE SCHEMA frozen")
        for name in CLOCKS:
            connection.execute(
                f"CREATE FUNCTION frozen.{name}() RETURNS timestamptz LANGUAGE sql IMMUTABLE "
                f"AS $$ SELECT timestamptz '{AT.isoformat()}' $$"
            )
        # Named explicitly, pg_catalog is searched second.
        connection.execute("ALTER DATABASE rolldeck SET search_path = public, frozen, pg_catalog")


def fix_identifiers() -> None:
    """Derive random identifiers from a generator with a fixed seed."""
    generator = random.Random(7)

    def token_urlsafe(nbytes: int = 32) -> str:
        return urlsafe_b64encode(generator.randbytes(nbytes)).rstrip(b"=").decode()

    uuid.uuid4 = lambda: uuid.UUID(int=generator.getrandbits(128), version=4)
    secrets.token_hex = lambda nbytes=32: generator.randbytes(nbytes).hex()  # type: ignore[misc]
    secrets.token_urlsafe = token_urlsafe  # type: ignore[assignment]


def answer_for_workers() -> None:
    """Report an idle worker for the jobs, which do not run; a missing one answers late or never."""
    from config.cluster import status
    from runs.deployment.models import ProcessHeartbeat

    workers = ProcessHeartbeat.objects.filter(kind="worker").values_list("name", flat=True)
    names = list(workers)
    status.active_jobs = lambda _app, _workers=0: {name: [] for name in names}  # type: ignore[assignment]


def serve(application: Any, port: int) -> None:
    """Serve like `config.web`, without the heartbeats of `config.served`."""
    config = uvicorn.Config(
        application,
        access_log=False,
        log_level="warning",
        lifespan="off",
        http="config.http_protocol:BoundedHttp",
        ws="web.live.websocket_protocol:BoundedWebSocket",
        timeout_graceful_shutdown=1,
    )
    listener = socket.create_server(("127.0.0.1", port))
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(Path(sys.argv[1]), int(sys.argv[2]))
