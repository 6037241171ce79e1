"""Start a whole server with `manage.py up`, in a temporary folder and on a free port."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

import httpx

from benchmarks.processes import descendants, is_waiting_spare
from tests import processes
from tests.initial_database import copy_database
from tests.ray_head import SAME_PRIORITY

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[1]
ADMIN_TOKEN = "a-bootstrap-token-for-tests"
# For servers without fleets: with a given address, Ray is not started.
NO_RAY = "127.0.0.1:9"
FOREIGN = ("DATABASE_URL", "REDIS_URL", "RAY_", "ROLLDECK_", "DJANGO_SETTINGS_MODULE")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def environment(var: Path, port: int, **more: str) -> dict[str, str]:
    """Return a clean environment, without the test session's own servers."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return own | {
        "ROLLDECK_VAR": str(var),
        "ROLLDECK_PORT": str(port),
        "ROLLDECK_BOOTSTRAP_TOKEN": ADMIN_TOKEN,
        **SAME_PRIORITY,
        **more,
    }


def in_a_shell(command: str, **more: str) -> str:
    """Run a command as in another terminal, without the server's settings."""
    foreign = (*FOREIGN, "PYTHONPATH")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd="/",
        env=own | more,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def wait_until(
    condition: Callable[[], T], *, seconds: float, what: str, interval_seconds: float = 0.05
) -> T:
    """Return the first true result of `condition`; connection errors count as not yet."""
    deadline = time.monotonic() + seconds
    last: object = None
    while time.monotonic() < deadline:
        try:
            answer = condition()
        except httpx.HTTPError as error:
            last = error
        else:
            if answer:
                return answer
            last = answer
        time.sleep(interval_seconds)
    raise AssertionError(f"not within {seconds} s: {what}; last seen: {last!r}")


# With limits, a pool may close an idle connection that it has already assigned to a request of
# another thread: https://github.com/encode/httpcore/issues/1110.
FOR_THREADS: Final = httpx.Limits(
    max_connections=None, max_keepalive_connections=None, keepalive_expiry=None
)


class Server:
    """A running server with an administrator's client."""

    def __init__(self, var: Path, port: int, process: "subprocess.Popen[bytes]") -> None:
        self.var = var
        self.port = port
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {ADMIN_TOKEN}"},
            timeout=30,
            limits=FOR_THREADS,
        )

    def get(self, path: str) -> Any:
        answer = self.http.get(path)
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        answer = self.http.post(path, json=body or {})
        assert answer.is_success, answer.text
        return answer.json()

    def new_run(self, name: str, **fields: Any) -> str:
        """Start an outside run and return its name, which differs when a test is rerun."""
        run = f"{name}-{uuid4().hex[:6]}"
        self.post("/api/v1/runs", {"name": run, "kind": "outside", "start": True, **fields})
        return run

    def free_name(self, name: str) -> str:
        """Kill and archive the run left by an earlier try of a test; return its name."""
        response = self.http.get(f"/api/v1/runs/{name}")
        if response.status_code == 200 and not response.json()["archived_at"]:
            self.http.post(f"/api/v1/runs/{name}/kill", json={"reason": "the test is tried again"})
            body = {"action": "archive", "ids": [response.json()["id"]]}
            (done,) = self.post("/api/v1/run-actions", body)["results"]
            assert done["problem"] == "", done
        return name

    def delete(self, path: str) -> None:
        self.http.delete(path).raise_for_status()

    def is_ready(self) -> bool:
        assert self.process.poll() is None, f"the server ended: {self.log()}"
        return self.http.get("/healthz/ready").status_code == 200

    def log(self) -> str:
        return (self.var / "up.log").read_text(errors="replace")[-4000:]

    def children(self, *words: str) -> list[int]:
        """Return the server's processes, at any depth, whose command line has all `words`.

        A spare counts once it works.
        """
        processes = descendants(self.process.pid).items()
        return sorted(
            pid
            for pid, line in processes
            if all(word in line for word in words) and not is_waiting_spare(pid, line)
        )

    def child(self, *words: str) -> int:
        """Return the supervisor's direct child whose command line has all `words`.

        Waits for it: the supervisor may restart a killed process only after up to 30 s.
        """
        pid = self.process.pid
        pids: set[int] = set()

        def is_there() -> bool:
            listing = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
            pids.clear()
            pids.update({int(child) for child in listing.split()} & set(self.children(*words)))
            return len(pids) == 1

        wait_until(is_there, seconds=60, what=f"one process of {' '.join(words)}")
        return pids.pop()

    def trainer_log(self) -> str:
        return (self.var / "trainer.log").read_text(errors="replace")[-4000:]

    def start_trainer(
        self, run: str, *more: str, example: str = "ppo_cartpole"
    ) -> "subprocess.Popen[bytes]":
        """Start an example trainer: as a file, or as a module if `example` has a dot."""
        program = ["-m", example] if "." in example else [f"examples/{example}.py"]
        with (self.var / "trainer.log").open("ab") as log:
            return processes.start(
                [sys.executable, *program]  # noqa: RUF005 reads as a command
                + ["--url", self.url, "--run", run, "--token", ADMIN_TOKEN, *more],
                cwd=ROOT,
                env=environment(self.var, self.port),
                stdout=log,
                stderr=log,
            )


@contextmanager
def running_server(var: Path, *, prefix: Sequence[str] = (), **more: str) -> Iterator[Server]:
    """Start a server on a prepared database, wait for it, and stop it like Ctrl-C.

    Args:
        var: Its data folder.
        prefix: Command that becomes the server, such as one that changes its user.
        more: Further environment variables.
    """
    port = free_port()
    var.mkdir(parents=True, exist_ok=True)
    if not (var / "postgres").exists():
        copy_database(var / "postgres")
    command = [*prefix, sys.executable, "manage.py", "up"]
    with serving(command, var, port, cwd=ROOT, env=environment(var, port, **more)) as server:
        yield server


@contextmanager
def serving(
    command: Sequence[str], var: Path, port: int, *, cwd: Path, env: dict[str, str]
) -> Iterator[Server]:
    """Run the command of a server until it is ready, and stop it like Ctrl-C afterwards."""
    with (var / "up.log").open("ab") as log:
        process = processes.start(command, cwd=cwd, env=env, stdout=log, stderr=log)
    server = Server(var, port, process)
    try:
        wait_until(server.is_ready, seconds=180, what="the server is ready")
        yield server
    finally:
        server.http.close()
        process.send_signal(signal.SIGINT)
        try:
            process.wait(90)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
