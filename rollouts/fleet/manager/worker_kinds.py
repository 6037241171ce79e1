"""Kinds of workers: env steps, or groups of language-model answers."""

from typing import Protocol

from rolldeck.operator_requests import LogLines, RecordingCommand
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.weights.records import Version, WeightsOffer
from rollouts.fleet.worker.messages import WorkerCommand, WorkerState


class Wrapper(Protocol):
    """Interface of a worker for its manager; thread-safe, and no method waits."""

    def heartbeat(self, command: WorkerCommand) -> WorkerState:
        """Apply a command and return the worker's state."""

    def update_weights(self, offer: WeightsOffer) -> Version:
        """Receive a version to load in the background; return the newest version known."""

    def record(self, command: RecordingCommand) -> None:
        """Record the next episode of a slot."""

    def read_log(self, slot: int | None, lines: int) -> LogLines:
        """Return the end of a log."""

    def read_stacks(self) -> LogLines:
        """Return the stacks of all threads of the worker's process."""

    def stop(self) -> WorkerState:
        """End the worker and return its final state."""


def begin(settings: WorkerSettings, *, owns_process: bool = False) -> Wrapper:
    """Return a worker with running loops.

    Args:
        settings: Settings of the worker.
        owns_process: Whether all log output of the process belongs to the worker.
    """
    # Each kind imports its own libraries.
    if settings.fleet.config.language is not None:
        from rollouts.fleet.groups.wrapper import GroupWorkerWrapper

        return GroupWorkerWrapper(settings, owns_process=owns_process)
    from rollouts.fleet.steps.wrapper import RolloutWorkerWrapper

    return RolloutWorkerWrapper(settings, owns_process=owns_process)
