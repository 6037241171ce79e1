"""Machine, commit and date of a measurement, without personal names."""

import os
import platform
import subprocess
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]


def describe(*more: str) -> str:
    """Return processor, memory, kernel, the version of Python, and `more`, in one line."""
    return ", ".join(
        (
            f"{_processor()}, {os.cpu_count()} cores",
            f"{_memory_gigabytes():.0f} GB RAM",
            f"Linux {platform.release()}",
            f"Python {platform.python_version()}",
            *more,
        )
    )


def describe_server(postgres: str, data_folder: Path) -> str:
    """Return the machine, the version of PostgreSQL and the file system of the data folder."""
    return describe(f"PostgreSQL {postgres}", f"data on {file_system(data_folder)}")


@cache
def commit() -> str:
    """Return the commit of the checkout at the first call, with ``-dirty`` after changes.

    Empty without Git. A command that writes results into the checkout calls it before.
    """
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def provenance(machine: str) -> dict[str, str]:
    """Return machine, commit and date of a measurement made now."""
    return {"machine": machine, "commit": commit(), "date": time.strftime("%Y-%m-%d")}


def stated(results: Mapping[str, Any]) -> str:
    """Return the line below a table: machine, commit and date."""
    return f"{results['machine']}; commit {results['commit']}; {results['date']}."


def file_system(folder: Path) -> str:
    """Return the type of the file system that holds `folder`."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
    place = folder.resolve()
    holding = [
        (len(point), kind) for _, point, kind, *_ in mounts if place.is_relative_to(Path(point))
    ]
    return max(holding)[1]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return " ".join(line.partition(":")[2].split())
    return platform.machine()


def _memory_gigabytes() -> float:
    first = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()[0]
    return int(first.split()[1]) / 1e6
