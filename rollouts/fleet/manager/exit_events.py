"""Tell of workers that are no more, in events that people read."""

from collections.abc import Sequence

from rolldeck.wire import WorkerEnding
from rollouts.fleet.worker.loops import EventLog


def tell_of_leaving(events: EventLog, ending: WorkerEnding, *, waiting: int) -> None:
    """Say that a worker left a fleet that became smaller, and what it leaves to others."""
    text = f"Worker {ending.index} has left; {waiting} of its fragments wait"
    events.add("worker_left", text, ending=ending, worker=ending.index)


def tell_of_loss(events: EventLog, ending: WorkerEnding) -> None:
    """Say that a worker crashed while it left."""
    text = f"Worker {ending.index} is lost: {ending.reason}"
    events.add("worker_left", text, ending=ending, worker=ending.index)


def tell_of_restart(events: EventLog, ending: WorkerEnding, *, wanted: str) -> None:
    """Say that people had a worker replaced, and why they wanted it."""
    text = f"Worker {ending.index} is replaced: {wanted}"
    events.add("worker_restarted", text, ending=ending, worker=ending.index)


def tell_of_cordon(events: EventLog, ending: WorkerEnding, *, is_out: bool) -> None:
    """Say that a cordoned worker has ended; it has a successor if the cordon was lifted."""
    what = "is not replaced" if is_out else "is replaced"
    text = f"Worker {ending.index} has ended and {what}: {ending.reason}"
    events.add("worker_out", text, ending=ending, worker=ending.index)


def tell_of_crash(
    events: EventLog, ending: WorkerEnding, *, wait: float | None, log: Sequence[str]
) -> None:
    """Say that a worker crashed, and when the next one comes: in `wait` seconds, None for never."""
    what = "given up" if wait is None else f"respawning in {wait:.1f} s"
    events.add(
        "worker_failed" if wait is None else "worker_respawned",
        f"Worker {ending.index} is lost, {what}: {ending.reason}",
        level="error" if wait is None else "warning",
        ending=ending,
        worker=ending.index,
        lost_steps=ending.lost_steps,
        unsent_fragments=ending.unsent_fragments,
        log=list(log),
    )
