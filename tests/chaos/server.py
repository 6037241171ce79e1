"""A server that a campaign may restart."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.processes import descendants, is_waiting_spare
from rolldeck.chaos.proxy import Proxy
from tests import processes
from tests.initial_database import copy_database
from tests.server import ADMIN_TOKEN, NO_RAY, ROOT, environment, free_port, wait_until

FAKETIME: Final = "/usr/lib/*/faketime/libfaketime.so.1"
"""Library of the package `faketime` of Debian."""
BUCKET: Final = "rolldeck-chaos"
# Under libfaketime 0.9.10, `time.sleep` fails: it waits for a time of the monotonic clock.
SLEEP: Final = """import select, time


def sleep(seconds):
    select.select((), (), (), seconds)


time.sleep = sleep
"""
SMALL_BYTES: Final = 1_000
"""Pushes above this length are objects of the storage."""


def fake_clock(file: Path) -> dict[str, str]:
    """Return the variables that make Python processes read the offset of their clock in a file.

    Raises:
        LookupError: If libfaketime is not installed.
    """
    found = sorted(Path("/").glob(FAKETIME.lstrip("/")))
    if not found:
        raise LookupError("libfaketime is absent: apt-get install faketime")
    file.write_text("+0\n", encoding="ascii")
    (file.parent / "site").mkdir(exist_ok=True)
    (file.parent / "site" / "sitecustomize.py").write_text(SLEEP, encoding="ascii")
    return {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_SKIP_CMDS": "postgres,initdb,valkey-server,gcs_server,raylet",
        "DONT_FAKE_MONOTONIC": "1",
        # Otherwise waits for Python's global lock end at once: 60 times as many switches.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }


def s3_settings(url: str) -> dict[str, str]:
    """Return the variables of a server with an object storage."""
    return {
        "ROLLDECK_PAYLOAD_STORAGE": f"s3://{BUCKET}/server?endpoint={url}&region=us-east-1",
        "ROLLDECK_INLINE_PAYLOAD_BYTES": str(SMALL_BYTES),
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
    }


@contextmanager
def object_storage(folder: Path) -> Iterator[Proxy]:
    """Run moto's S3 server with a bucket, and yield a proxy in front of it."""
    port = free_port()
    with (folder / "s3.log").open("ab") as log:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        process = processes.start(command, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"

        def is_made() -> bool:
            return httpx.put(f"{url}/{BUCKET}", timeout=5).status_code == 200

        wait_until(is_made, seconds=60, what="the object storage has a bucket")
        with Proxy("127.0.0.1", port) as proxy:
            yield proxy
    finally:
        process.terminate()
        process.wait(30)


class ChaosServer:
    """A server on a free port with its data in a folder.

    Args:
        var: Its data folder.
        has_ray: Whether to start Ray.
        disk: The file system of the folder, if it may be filled.
        clock: File with the offset of the clocks of the server's Python processes, if libfaketime
            changes them.
        storage: Proxy in front of the object storage, if the server uses one.
        root: Folder of the server's code.
        more: Further environment variables.
    """

    def __init__(
        self,
        var: Path,
        *,
        has_ray: bool = False,
        disk: Path | None = None,
        clock: Path | None = None,
        storage: Proxy | None = None,
        root: Path = ROOT,
        **more: str,
    ) -> None:
        self.var = var
        self.disk = disk
        self.clock = clock
        self.storage = storage
        self.has_ray = has_ray
        self._port = free_port()
        sources = os.pathsep.join(str(root / name) for name in ("", "platform", "client"))
        self._root = root
        self._environment = environment(var, self._port, PYTHONPATH=sources, **more)
        if clock is not None:
            self._environment |= fake_clock(clock)
            self._environment["PYTHONPATH"] += f"{os.pathsep}{clock.parent / 'site'}"
        if storage is not None:
            self._environment |= s3_settings(storage.url)
        if not has_ray:
            self._environment["RAY_ADDRESS"] = NO_RAY
        self.url = f"http://127.0.0.1:{self._port}"
        self.token = ADMIN_TOKEN
        var.mkdir(parents=True, exist_ok=True)
        if not (var / "postgres").exists():
            copy_database(var / "postgres")
        self.process = self.start()

    def start(self) -> "subprocess.Popen[bytes]":
        """Start the server without waiting for it."""
        with (self.var / "up.log").open("ab") as log:
            self.process = processes.start(
                [sys.executable, "manage.py", "up"],
                cwd=self._root,
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        return self.process

    def start_another(self) -> int:
        """Start a second server on the folder, and return its exit code; 0 if it runs on."""
        with suppress(subprocess.TimeoutExpired):
            return subprocess.run(
                [sys.executable, "manage.py", "up"],
                cwd=self._root,
                env=self._environment | {"ROLLDECK_PORT": str(free_port())},
                capture_output=True,
                timeout=300,  # a start takes a minute at a load of ten per core
                check=False,
            ).returncode
        return 0

    def wait_until_ready(self, seconds: float = 180.0) -> None:
        """Wait for the first answer."""
        wait_until(self.is_ready, seconds=seconds, what="the server is ready")

    def is_ready(self) -> bool:
        """Return whether the server is ready."""
        return httpx.get(f"{self.url}/healthz/ready", timeout=5).status_code == 200

    def services(self) -> dict[str, Any]:
        """Return the addresses of the server's own services; wait for a server that starts."""
        path = self.var / "run" / "services.json"
        wait_until(path.exists, seconds=60.0, what="the services run")
        content: dict[str, Any] = json.loads(path.read_text())
        return content

    def children(self, *words: str) -> list[int]:
        """Return the server's processes whose command line has all `words`; no waiting spares."""
        lines = descendants(self.process.pid).items()
        return sorted(
            pid
            for pid, line in lines
            if all(word in line for word in words) and not is_waiting_spare(pid, line)
        )

    def stop(self) -> None:
        """Stop the server."""
        self.process.terminate()
        try:
            self.process.wait(90)
        except subprocess.TimeoutExpired:
            self.process.kill()
