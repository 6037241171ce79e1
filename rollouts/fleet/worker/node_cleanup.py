"""Clean up a node after an earlier worker, before a new worker starts environments.

Orphaned processes are detected by a mark, an environment variable. Every process that an
environment starts inherits it, including a simulator's own children, which parent-death signals and
process groups may miss.
"""

import hashlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.worker.resources import gpu_memory, shortage

logger = logging.getLogger(__name__)

MARK_VARIABLE: Final = "ROLLDECK_PROCESS_OF"
_SAME_START_SECONDS: Final = 2.0
"""Tolerance between two readings of a process's start time, in seconds."""
GPU_WAIT_SECONDS: Final = 20.0
"""Time a worker waits for GPU memory; a driver takes seconds to free a dead process' memory."""
GPU_POLL_SECONDS: Final = 0.5
PROC: Final = Path("/proc")
STARTED_SECONDS: Final = 1.0
"""Time that a process may take to execute its program."""
STARTED_POLL_SECONDS: Final = 0.002
PASSES: Final = 10
"""Lists of processes after which a worker starts although further ones are found."""

GpuMemory = Callable[[], tuple[int, int] | None]
"""Returns (total, used) bytes of this process' GPU; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Owner of a process."""

    fleet: str
    """Short name of a run of one deployment, without spaces."""
    worker: int
    """Index in the fleet."""
    incarnation: str
    """Incarnation of the worker, without spaces."""
    owner_pid: int
    """Process id of the worker."""
    owner_started: float
    """Start time of that process in seconds of Unix time, because process ids are reused."""

    def __str__(self) -> str:
        return (
            f"{self.fleet} {self.worker} {self.incarnation} {self.owner_pid} "
            f"{self.owner_started:.2f}"
        )


def read_mark(text: str) -> Mark | None:
    """Return the mark in `text`; None if it is not a valid mark."""
    try:
        fleet, worker, incarnation, pid, started = text.split(" ")
        return Mark(
            fleet=fleet,
            worker=int(worker),
            incarnation=incarnation,
            owner_pid=int(pid),
            owner_started=float(started),
        )
    except ValueError:
        return None


def lives(found: Mark, owner_started: float | None) -> bool:
    """Return whether the process that set the mark is alive.

    `owner_started` is the start time of the process that has the owner's id now; None without one.
    """
    return (
        owner_started is not None
        and abs(owner_started - found.owner_started) <= _SAME_START_SECONDS
    )


def why_ended(found: Mark, *, mine: Mark, owner_lives: bool) -> str:
    """Return why a process with the mark `found` must end; empty if it must not.

    `mine` is the mark of the starting worker.
    """
    if not owner_lives:
        return "its worker is gone"
    if found.owner_pid == mine.owner_pid:
        return ""
    if (found.fleet, found.worker) == (mine.fleet, mine.worker):
        # A manager starts another incarnation only after it has given up the previous one.
        return f"it belongs to an earlier worker {found.worker}"
    return ""


def mark_of(settings: WorkerSettings) -> Mark:
    """Return the mark of the processes that a worker in this process starts."""
    fleet = settings.fleet
    owner = f"{fleet.platform_url} {fleet.run_key or fleet.run}".encode()
    return Mark(
        fleet=hashlib.blake2s(owner, digest_size=6).hexdigest(),
        worker=settings.index,
        incarnation=settings.incarnation,
        owner_pid=os.getpid(),
        owner_started=psutil.Process().create_time(),
    )


def clean_node(settings: WorkerSettings, events: EventLog, *, gpu: GpuMemory = gpu_memory) -> None:
    """End leftover processes, then wait up to 20 s for free GPU memory."""
    ended = end_leftovers(mark_of(settings))
    if ended:
        events.add(
            "leftovers_ended",
            f"Ended {len(ended)} processes left on the node: {'; '.join(ended[:20])}",
            level="warning",
        )
    share = settings.fleet.config.fleet.num_gpus_per_worker
    held = wait_for_gpu(share, gpu)
    if held:
        events.add(
            "gpu_memory_held",
            f"Starting without enough free GPU memory after {GPU_WAIT_SECONDS:.0f} s: {held}",
            level="warning",
        )


def end_leftovers(mine: Mark, *, proc: Path = PROC) -> list[str]:
    """End this user's processes that lost their worker; return each with the reason.

    A process may start another while the processes are listed, so they are listed again until none
    is left, at most :data:`PASSES` times. `proc` is the path of procfs, which shows the PID
    namespace of a process.
    """
    ended: list[str] = []
    for _ in range(PASSES):
        before = len(ended)
        for process, reason in _leftovers(mine, proc):
            name = "?"
            with suppress(psutil.Error):
                name = process.name()
            try:
                process.kill()  # psutil checks that its id was not reused
                process.wait(timeout=5)
            except psutil.Error as error:
                logger.warning("process %d not ended: %s", process.pid, error)
            else:
                ended.append(f"{process.pid} {name}: {reason}")
        if len(ended) == before:
            break
    return ended


def wait_for_gpu(share: float, gpu: GpuMemory) -> str:
    """Wait until the worker's share of its GPU is free; return the shortage, if any remains."""
    if not share:
        logger.info("GPU memory not checked: the worker requests no GPU")
        return ""
    deadline = time.monotonic() + GPU_WAIT_SECONDS
    while True:
        found = gpu()
        if found is None:
            logger.info("GPU memory not checked: the driver cannot be queried")
            return ""
        lacking = shortage(share=share, total_bytes=found[0], used_bytes=found[1])
        if not lacking or time.monotonic() >= deadline:
            return lacking
        time.sleep(GPU_POLL_SECONDS)


def _leftovers(mine: Mark, proc: Path) -> Iterator[tuple[psutil.Process, str]]:
    owners: set[int] = set()
    for process in psutil.process_iter():
        try:
            mark = read_mark(_environment(process).get(MARK_VARIABLE, ""))
        except (psutil.Error, OSError):
            continue  # another user's process, or one that has ended
        if mark is None or process.pid == mine.owner_pid:
            continue
        if not _shares_pid_namespace(process.pid, proc):
            continue
        owner_lives = lives(mark, _started(mark.owner_pid))
        reason = why_ended(mark, mine=mine, owner_lives=owner_lives)
        if reason and owner_lives and mark.owner_pid not in owners:
            # The owner comes first: it would restart the process.
            owners.add(mark.owner_pid)
            yield psutil.Process(mark.owner_pid), reason
        if reason:
            yield process, reason


def _environment(process: psutil.Process) -> dict[str, str]:
    """Return the environment of a process.

    A process that is executing its program has neither environment nor arguments for a moment,
    although its parent has already continued. A kernel thread has no program either.

    Raises:
        psutil.Error: If it has ended, or belongs to another user.
    """
    deadline = time.monotonic() + STARTED_SECONDS
    while not (found := process.environ()):
        if process.cmdline() or not process.exe():
            return dict(process.environ())
        if time.monotonic() > deadline:
            break
        time.sleep(STARTED_POLL_SECONDS)
    return dict(found)


def _shares_pid_namespace(pid: int, proc: Path) -> bool:
    """Return whether a process is in the same PID namespace as this one.

    In a container, its mark holds an id that may belong to another process out here.
    """
    if not sys.platform.startswith("linux"):
        return True
    try:
        mine = (proc / "self" / "ns" / "pid").readlink()
        return (proc / str(pid) / "ns" / "pid").readlink() == mine
    except OSError:
        return False


def _started(pid: int) -> float | None:
    """Return when the living process with this id started; None if there is none."""
    try:
        process = psutil.Process(pid)
        is_over = process.status() in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
        return None if is_over else float(process.create_time())
    except psutil.Error:
        return None
