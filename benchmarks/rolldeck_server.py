"""Run our server with `manage.py up`: PostgreSQL, Valkey, web, jobs and beat."""

import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psycopg

from benchmarks import processes
from benchmarks.http_client import Answer, Line, request_bytes
from benchmarks.machine import file_system

TOKEN: Final = "a-bootstrap-token-for-benchmarks"  # noqa: S105 of a temporary server
RUN: Final = "default"
OURS: Final = ("DATABASE_URL", "REDIS_URL", "RAY_", "ROLLDECK_", "DJANGO_SETTINGS_MODULE")
# A given address keeps Ray from starting: rows of the buffer do not need it, and it uses a core.
NO_RAY: Final = "127.0.0.1:9"
DURABLE: Final = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
REGISTRATION: Final = {
    "wandb_group": "benchmark",
    "wandb_project": "benchmark",
    "max_token_len": 32_768,
    "checkpoint_dir": "checkpoints",
    "save_checkpoint_interval": 100,
    "starting_step": 0,
    "num_steps": 1_000_000,
}
ENVIRONMENT: Final = {"max_token_length": 32_768, "desired_name": "benchmark", "weight": 1.0}


class NotDurable(Exception):
    """PostgreSQL's settings permit the loss of acknowledged commits after a power failure."""


class AtroposApi:
    """API shared by both servers: the stock routes, without credentials."""

    def __init__(self, url: str, pid: int) -> None:
        self.url = url
        self.pid = pid

    def cpu_seconds(self) -> dict[str, float]:
        """Return the processor time used so far, by part."""
        return {"server": processes.cpu_seconds([self.pid])}

    def memory_bytes(self) -> dict[str, int]:
        """Return the memory in use, by part."""
        return {"server": processes.memory_bytes(self.pid, "Rss")}

    def call(self, method: str, path: str, content: Any = None, *, is_admin: bool = False) -> Any:
        """Return the decoded response to one call on a new connection."""
        return json.loads(bytes(self.ask(method, path, content, is_admin=is_admin).body))

    def ask(self, method: str, path: str, content: Any = None, *, is_admin: bool = False) -> Answer:
        body = b"" if content is None else json.dumps(content).encode()
        headers = {"Connection": "close"}
        if is_admin:
            headers["Authorization"] = f"Bearer {TOKEN}"
        with Line(self.url) as line:
            return line.ok(request_bytes(method, path, body, headers=headers))

    def begin(self, *, batch_size: int, group_size: int) -> int:
        """Start a new run with one environment, and return its `env_id`."""
        self.ask("GET", "/reset_data")
        self.call("POST", "/register", REGISTRATION | {"batch_size": batch_size})
        self.call("GET", "/batch")  # environments may join after a trainer's first request
        joined = self.call("POST", "/register-env", ENVIRONMENT | {"group_size": group_size})
        return int(joined["env_id"])

    def queue_size(self) -> int:
        """Return the number of queued groups."""
        return int(self.call("GET", "/status")["queue_size"])


class RolldeckServer(AtroposApi):
    """A running server of ours."""

    def __init__(self, url: str, var: Path, pid: int) -> None:
        super().__init__(url, pid)
        self.var = var

    @property
    def database_url(self) -> str:
        """URL of the server's PostgreSQL, for libpq."""
        services = json.loads((self.var / "run" / "services.json").read_text(encoding="utf-8"))
        return str(services["DATABASE_URL"])

    def sql(self, *, autocommit: bool = True) -> "psycopg.Connection[Any]":
        """Return a separate connection to the server's database."""
        return psycopg.connect(self.database_url, autocommit=autocommit)

    def postgres_version(self) -> str:
        with self.sql() as connection:
            row = connection.execute("SHOW server_version").fetchone()
        return str(row[0]) if row else "?"

    def web_pids(self) -> list[int]:
        """Return the processes that serve requests; with several workers, without their parent."""
        lines = processes.descendants(self.pid)
        web = [
            pid
            for pid, line in lines.items()
            if "config.web" in line and not processes.is_waiting_spare(pid, line)
        ]
        spawned = [child for pid in web for child in processes.descendants(pid)]
        serving = [pid for pid in spawned if "resource_tracker" not in lines.get(pid, "")]
        return sorted(serving or web)

    def cpu_seconds(self) -> dict[str, float]:
        return {
            "web": processes.cpu_seconds(self.web_pids()),
            "postgres": processes.cpu_seconds(self.postgres_pids()),
        }

    def memory_bytes(self) -> dict[str, int]:
        """Return the resident memory of the web processes and PostgreSQL's private memory."""
        return {
            "web": sum(processes.memory_bytes(pid, "Rss") for pid in self.web_pids()),
            "postgres": sum(
                processes.memory_bytes(pid, kind)
                for pid in self.postgres_pids()
                for kind in ("Private_Clean", "Private_Dirty")
            ),
        }

    def postgres_pids(self) -> list[int]:
        lines = processes.descendants(self.pid)
        return sorted(pid for pid, line in lines.items() if "postgres" in line)

    def check_durability(self) -> None:
        """Raise unless an acknowledged commit survives a power failure.

        Raises:
            NotDurable: If a setting or the file system is not durable.
        """
        with self.sql() as connection:
            for name, required in DURABLE.items():
                row = connection.execute(f"SHOW {name}").fetchone()
                if row is None or row[0] != required:
                    raise NotDurable(f"{name} is {row}, it must be {required}")
        kind = file_system(self.var)
        if kind in IN_MEMORY:
            raise NotDurable(f"{self.var} is on {kind}: set TMPDIR to a folder on a disk")


@contextlib.contextmanager
def running_rolldeck(
    *,
    web_workers: int | None = None,
    settings: Mapping[str, str] | None = None,
    prepare: Callable[[Path], None] | None = None,
) -> Iterator[RolldeckServer]:
    """Start a server on an empty folder; stop it and remove the folder at the end.

    Args:
        web_workers: Number of web processes; None for the default.
        settings: Environment variables that differ from the defaults.
        prepare: Creates the data folder of PostgreSQL; None lets the server create it.
    """
    var = Path(tempfile.mkdtemp(prefix="rolldeck-bench-"))
    port = processes.free_port()
    url = f"http://127.0.0.1:{port}"
    if prepare is not None:
        prepare(var / "postgres")
    try:
        with processes.server(
            [sys.executable, "manage.py", "up"],
            env=_environment(var, port, web_workers) | dict(settings or {}),
            log=var / "up.log",
            url=url,
            ready_path="/healthz/ready",
        ) as process:
            rolldeck = RolldeckServer(url, var, process.pid)
            rolldeck.check_durability()
            yield rolldeck
    finally:
        shutil.rmtree(var, ignore_errors=True)


def _environment(var: Path, port: int, web_workers: int | None) -> dict[str, str]:
    """Return a clean environment, without settings of another server."""
    allowed = ("ROLLDECK_POSTGRES_BIN", "ROLLDECK_VALKEY_SERVER")
    own = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(allowed) or not name.startswith(OURS)
    }
    workers = {} if web_workers is None else {"ROLLDECK_WEB_WORKERS": str(web_workers)}
    return (
        own
        | workers
        | {
            "ROLLDECK_VAR": str(var),
            "ROLLDECK_PORT": str(port),
            "ROLLDECK_BOOTSTRAP_TOKEN": TOKEN,
            "RAY_ADDRESS": NO_RAY,
        }
    )
