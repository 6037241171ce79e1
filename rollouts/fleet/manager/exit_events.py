"""Emit events about workers that have ended."""

from collections.abc import Sequence

from rolldeck.wire import WorkerEnding
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.worker.messages import WorkerState


def emit_leaving(events: EventLog, ending: WorkerEnding, *, waiting: int) -> None:
    """Emit the event of a worker that left after the fleet was scaled down."""
    text = f"Worker {ending.index} has left; {waiting} of its fragments remain to be sent"
    events.add("worker_left", text, ending=ending, worker=ending.index)


def emit_loss(events: EventLog, ending: WorkerEnding) -> None:
    """Emit the event of a worker that crashed while it was leaving."""
    text = f"Worker {ending.index} is lost: {ending.reason}"
    events.add("worker_left", text, ending=ending, worker=ending.index)


def emit_restart(events: EventLog, ending: WorkerEnding, *, reason: str) -> None:
    """Emit the event of a worker that was restarted on request, with the reason."""
    text = f"Worker {ending.index} is replaced: {reason}"
    events.add("worker_restarted", text, ending=ending, worker=ending.index)


def emit_cordon(events: EventLog, ending: WorkerEnding, *, is_out: bool) -> None:
    """Emit the event of a cordoned worker that ended; it is replaced unless `is_out`."""
    what = "is not replaced" if is_out else "is replaced"
    text = f"Worker {ending.index} has ended and {what}: {ending.reason}"
    events.add("worker_out", text, ending=ending, worker=ending.index)


def emit_lost_evaluation(
    events: EventLog, index: int, state: WorkerState | None, reason: str
) -> None:
    """Emit the event of an evaluation that ended with its worker; `state` is its last state."""
    if state is None or state.evaluation is None:
        return
    events.add(
        "evaluation_failed",
        f"The evaluation of version {state.evaluation[1]} failed: worker {index} ended: {reason}",
        level="warning",
        worker=index,
        version=list(state.evaluation),
        reason=f"worker {index} ended: {reason}"[:2000],
    )


def emit_crash(
    events: EventLog, ending: WorkerEnding, *, wait: float | None, log: Sequence[str]
) -> None:
    """Emit the event of a crash; the successor starts in `wait` seconds, or never (None)."""
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
