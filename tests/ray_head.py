"""Start a real Ray cluster for the tests, with the platform's own command."""

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from config.embedded import parts
from config.embedded.children import Child
from rollouts.fleet import ray_internals
from tests.scheduling import RAY_HEAD_RESOURCES

ROOT = Path(__file__).resolve().parents[1]


# Ray lowers the priority of workers by 15: beside any other load they get a thirtieth of a core.
SAME_PRIORITY: Final = {"RAY_worker_niceness": "0"}
# Variables of the whole test process, with one token for all its clusters: Ray reads them on import
# and keeps them.
RAY_ENVIRONMENT: Final = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    **SAME_PRIORITY,
    **ray_internals.ON_LOOPBACK,
}


@dataclass(frozen=True)
class RayHead:
    """A running cluster of one node with two CPUs."""

    address: str
    temp_dir: str
    pid: int


@pytest.fixture(scope="session")
def ray_head() -> Iterator[RayHead]:
    """Yield a cluster that this process and its children may connect to by `address`."""
    with RAY_HEAD_RESOURCES:
        temp_dir = Path(tempfile.mkdtemp(prefix="rdray"))  # sockets need short paths
        yield RAY_HEAD_RESOURCES.enter_context(_head(temp_dir))


@contextmanager
def _head(temp_dir: Path) -> Iterator[RayHead]:
    # The cluster's workers import the fleet's code by name.
    paths = os.pathsep.join(str(path) for path in (ROOT, ROOT / "platform", ROOT / "client"))
    address = f"{parts.LOOPBACK}:{parts.free_ray_port()}"
    command = parts.ray_head_command(
        address=address,
        cpus=2,
        temp_folder=temp_dir,
        environment={**os.environ, "PYTHONPATH": paths},
    )
    head = Child(command, log_folder=temp_dir)
    try:
        _wait_until_up(head, address)
        yield RayHead(address=address, temp_dir=str(temp_dir), pid=head.pid)
    finally:
        head.stop()
        shutil.rmtree(temp_dir, ignore_errors=True)


def _wait_until_up(head: Child, address: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and head.exit_code is None:
        # The head prints this last, once all its parts are up.
        if ray_internals.STARTED in head.logged() and parts.answers(address):
            return
        time.sleep(0.05)
    raise RuntimeError(f"Ray did not start:\n{head.log_path.read_text(errors='replace')}")
