"""A server that a campaign may restart."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from benchmarks.processes import descendants
from tests import processes
from tests.initial_database import copy_database
from tests.server import ADMIN_TOKEN, NO_RAY, ROOT, environment, free_port, wait_until


class ChaosServer:
    """A server on a free port with its data in a folder.

    Args:
        var: Its data folder.
        has_ray: Whether to start Ray.
        disk: The file system of the folder, if it may be filled.
        root: Folder of the server's code.
        more: Further environment variables.
    """

    def __init__(
        self,
        var: Path,
        *,
        has_ray: bool = False,
        disk: Path | None = None,
        root: Path = ROOT,
        **more: str,
    ) -> None:
        self.var = var
        self.disk = disk
        self.has_ray = has_ray
        self._port = free_port()
        sources = os.pathsep.join(str(root / name) for name in ("", "platform", "client"))
        self._root = root
        self._environment = environment(var, self._port, PYTHONPATH=sources, **more)
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
                timeout=30,
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
        """Return the addresses of the server's own services."""
        content: dict[str, Any] = json.loads((self.var / "run" / "services.json").read_text())
        return content

    def children(self, *words: str) -> list[int]:
        """Return the server's processes whose command line has all `words`."""
        lines = descendants(self.process.pid).items()
        return sorted(pid for pid, line in lines if all(word in line for word in words))

    def stop(self) -> None:
        """Stop the server."""
        self.process.terminate()
        try:
            self.process.wait(90)
        except subprocess.TimeoutExpired:
            self.process.kill()
