"""Ids of simulated workers, in the format of real ones."""

from hashlib import blake2s
from typing import Final

FLEET: Final = "1-a12c82c7"


def incarnation_of(worker: int, *, restarts: int = 0) -> str:
    """Return the id of a worker process: fleet id and a process token."""
    token = blake2s(f"{worker}.{restarts}".encode(), digest_size=3).hexdigest()
    return f"{FLEET}-{token}"


def worker_id(worker: int) -> str:
    """Return the id of a worker as used in its fragments and groups."""
    return f"w{worker}@{incarnation_of(worker)}"
