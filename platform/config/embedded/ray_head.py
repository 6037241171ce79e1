"""Run a Ray head of our own, closed to others by a token."""

import importlib.util
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from config.embedded.children import Command
from rollouts.fleet.worker import child_environment

LOOPBACK: Final = "127.0.0.1"
# A node is dead when it refuses five of these: after 5 s, where Ray by itself takes 15. One that
# is only slow has ten seconds for each answer all the same.
HEALTH: Final = {"RAY_health_check_period_ms": "1000"}
# Ray replaces a loopback address by the public one of the machine and then listens on every
# interface, unless clusters of several machines are disabled. Its drivers need this too.
ON_LOOPBACK: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


def is_installed() -> bool:
    """Return whether this environment can run fleets."""
    return importlib.util.find_spec("ray") is not None


def free_port() -> int:
    """Return a port of the loopback that nobody uses at the moment."""
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
    """Return what starts the head.

    Args:
        address: ``host:port`` where it listens.
        cpus: How many actors of one CPU each the cluster takes.
        temp_folder: Private and short. A folder that others share may hold the notes of a dead
            cluster, and clients then hang on it.
        environment: Of which the cluster's processes inherit what fleets need, and Ray's own.
        token_file: Holds the cluster's token; None: the environment does.
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
        "--include-log-monitor=false",  # it would only pass on to drivers what nobody there reads
        "--disable-usage-stats",
        # Any free port, so that several decks live beside each other.
        "--min-worker-port=0",
        "--max-worker-port=0",
    ]
    return Command(
        name="ray",
        argv=(sys.executable, "-m", "ray.scripts.scripts", *words),
        env=_environment(environment, token_file),
        stop_signal=signal.SIGTERM,
        death_signal=signal.SIGTERM,
        stop_seconds=3.0,
    )


def _environment(variables: Mapping[str, str], token_file: Path | None) -> dict[str, str]:
    """Return the environment of Ray's processes, which actors inherit: no secret is in it."""
    # The address of a cluster in the environment would make `ray start` refuse.
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
    """Return how many CPUs to offer: a demo on one core still needs room for two actors."""
    return max(os.cpu_count() or 1, 2)
