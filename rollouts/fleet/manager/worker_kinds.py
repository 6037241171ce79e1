"""Begin the kind of worker that a run wants: steps of environments, or groups of answers."""

from typing import Protocol

from rolldeck.errands import LogLines, RecordingOrder
from rollouts.fleet.weights.records import Version, WeightsOffer
from rollouts.fleet.worker.messages import Orders, WorkerState
from rollouts.fleet.worker.settings import WorkerSettings


class Wrapper(Protocol):
    """What a manager sees of a worker; no method waits, and any thread may call them."""

    def exchange(self, orders: Orders) -> WorkerState:
        """Take orders; return how the worker is."""

    def update_weights(self, offer: WeightsOffer) -> Version:
        """Hear of a version, to be loaded beside the rollouts; return the newest one known."""

    def record(self, order: RecordingOrder) -> None:
        """Have a slot film its next episode."""

    def read_log(self, slot: int | None, lines: int) -> LogLines:
        """Return the end of a log."""

    def read_stacks(self) -> LogLines:
        """Return what every thread of its process is at."""

    def stop(self) -> WorkerState:
        """End everything; return how the worker was in the end."""


def begin(settings: WorkerSettings, *, owns_process: bool = False) -> Wrapper:
    """Return a worker whose loops run.

    Args:
        settings: Of the worker.
        owns_process: Whether whatever the process logs belongs to it.
    """
    # Each kind brings its own libraries.
    if settings.fleet.config.language is not None:
        from rollouts.fleet.groups.wrapper import GroupWorkerWrapper

        return GroupWorkerWrapper(settings, owns_process=owns_process)
    from rollouts.fleet.worker.wrapper import RolloutWorkerWrapper

    return RolloutWorkerWrapper(settings, owns_process=owns_process)
