"""Describe the machine in one line without personal names."""

import os
import platform
from pathlib import Path


def describe(*, postgres: str, data_folder: Path) -> str:
    """Return processor, memory, kernel, versions and the file system of the data folder."""
    return ", ".join(
        (
            f"{_processor()}, {os.cpu_count()} cores",
            f"{_memory_gigabytes():.0f} GB RAM",
            f"Linux {platform.release()}",
            f"Python {platform.python_version()}",
            f"PostgreSQL {postgres}",
            f"data on {file_system(data_folder)}",
        )
    )


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
