"""A Ray cluster of one node, for rows that need one."""

import contextlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from config.embedded import parts
from config.embedded.children import Child
from rollouts.fleet import ray_internals
from rollouts.fleet.ray_internals import disconnect_from_ray

ROOT: Final = Path(__file__).resolve().parents[1]
START_SECONDS: Final = 120.0
# One token for all clusters of a process: Ray reads it when it is imported, and keeps it.
ENVIRONMENT: Final = {
    **ray_internals.ON_LOOPBACK,
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@contextlib.contextmanager
def running_cluster(*, cpus: int) -> Iterator[None]:
    """Start a cluster private to this process, and connect to it."""
    os.environ.update(ENVIRONMENT)
    import ray

    # Its sockets need a short path.
    folder = Path(tempfile.mkdtemp(prefix="rdbench", dir="/tmp"))
    # The cluster's actors import their classes by name.
    paths = os.pathsep.join(str(path) for path in (ROOT, ROOT / "platform", ROOT / "client"))
    address = f"{parts.LOOPBACK}:{parts.free_port()}"
    command = parts.ray_head_command(
        address=address,
        cpus=cpus,
        temp_folder=folder,
        environment={**os.environ, "PYTHONPATH": paths},
    )
    head = Child(command, log_folder=folder)
    try:
        _wait_until_up(head, address)
        ray.init(address=address, log_to_driver=False, configure_logging=False)
        yield
    finally:
        disconnect_from_ray()
        head.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_up(head: Child, address: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and head.exit_code is None:
        # The head prints this last, once all its parts are up.
        if ray_internals.STARTED in head.logged() and parts.answers(address):
            return
        time.sleep(0.1)
    raise RuntimeError(f"Ray did not start:\n{head.log_path.read_text(errors='replace')}")
