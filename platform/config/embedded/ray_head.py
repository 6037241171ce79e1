"""Embedded Ray head, protected by a token."""

import importlib.util
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from config.embedded.children import Command
from rollouts.fleet.process import child_environment

LOOPBACK: Final = "127.0.0.1"
# A node counts as dead after five failed checks: 5 s, compared with 15 s by Ray's default. A slow
# node still has ten seconds for each answer.
HEALTH: Final = {"RAY_health_check_period_ms": "1000"}
# Ray replaces a loopback address by the machine's public one and then listens on every interface,
# unless clusters of several machines are disabled. Its drivers need the setting too.
ON_LOOPBACK: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


def is_installed() -> bool:
    """Return whether this environment can run fleets."""
    return importlib.util.find_spec("ray") is not None


def free_port() -> int:
    """Return a free port on the loopback interface."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port


def command(
    *,
    address: str,
    cpus: int,
    temp_folder: Path,
    environment: Mapping[str, str],
    token_file: Path | None = None,
) -> Command:
    """Return the start command of the head.

    Args:
        address: ``host:port`` to listen on.
        cpus: Number of CPUs of the cluster; an actor uses one.
        temp_folder: Private and short. A shared folder may hold files of a dead cluster, on which
            clients hang.
        environment: Source of the variables that the cluster's processes get: those for fleets and
            Ray's own.
        token_file: File with the cluster's token; with None it is in the environment.
    """
    host, _, port = address.partition(":")
    words = [
        "start",
        "--head",
        "--block",
        f"--node-ip-address={host}",
        f"--port={port}",
        f"--num-cpus={cpus}",
        f"--temp-dir={temp_folder}",
        "--include-dashboard=false",
        "--include-log-monitor=false",  # its output to drivers is not read
        "--disable-usage-stats",
        # Any free port, so that several deployments can run on one machine.
        "--min-worker-port=0",
        "--max-worker-port=0",
    ]
    return Command(
        name="ray",
        argv=(sys.executable, "-m", "ray.scripts.scripts", *words),
        env=_environment(environment, token_file),
        stop_signal=signal.SIGTERM,
        death_signal=signal.SIGTERM,
        stop_seconds=1.5,
    )


def _environment(variables: Mapping[str, str], token_file: Path | None) -> dict[str, str]:
    """Return the environment of Ray's processes; actors inherit it, so it holds no secret."""
    # With RAY_ADDRESS in the environment, `ray start` fails.
    left_out = {"RAY_ADDRESS", *(["RAY_AUTH_TOKEN"] if token_file else [])}
    rays_own = {
        name: value
        for name, value in variables.items()
        if name.startswith("RAY_") and name not in left_out
    }
    token = {"RAY_AUTH_TOKEN_PATH": str(token_file)} if token_file else {}
    return {
        **HEALTH,
        **ON_LOOPBACK,
        **child_environment.for_fleets(variables),
        **rays_own,
        **token,
    }


def answers(address: str) -> bool:
    """Return whether the head accepts connections."""
    host, _, port = address.partition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=0.5):
            return True
    except OSError:
        return False


def default_cpus() -> int:
    """Return the number of CPUs to offer: at least 2, as the demo needs two actors."""
    return max(os.cpu_count() or 1, 2)
