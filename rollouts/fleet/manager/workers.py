"""Describe where a manager's workers come from: a Ray cluster, or its own process."""

from concurrent.futures import Future
from typing import Any, Protocol

from rollouts.fleet.weights.records import WeightsOffer, WeightsRecord
from rollouts.fleet.worker.settings import WorkerSettings


class WorkerHandle(Protocol):
    """One :class:`rollouts.fleet.manager.worker_kinds.Wrapper`, wherever it is."""

    def submit(self, method: str, *arguments: object) -> Future[Any]:
        """Call a method; the future fails when the worker is gone. Never waits."""

    def kill(self) -> None:
        """End the worker at once; never waits and never fails."""

    def obstacle(self) -> str:
        """Return why the worker cannot start at present; empty if nothing is in the way."""

    def is_seated(self) -> bool:
        """Return whether it has got its place; it may still be starting there."""


class WorkerSource(Protocol):
    """Starts workers."""

    def spawn(self, settings: WorkerSettings) -> WorkerHandle:
        """Start a worker; it may take a while until its first answer."""

    def stay_off(self, nodes: frozenset[str]) -> None:
        """Place workers that are spawned from now on anywhere but on these nodes, by Ray's ids."""

    def share(self, record: WeightsRecord) -> WeightsOffer:
        """Return what to pass to `update_weights`, the same for every worker."""

    def read_log(self, index: int, slot: int | None, lines: int) -> Future[Any] | None:
        """Have the log of a worker that is gone read where it was.

        Returns:
            What becomes the end of the log, or fails if that node is gone; None if the worker
            was on this node, or nobody knows where it was.
        """

    def close(self) -> None:
        """Give back what was reserved for workers; there will be no more of them."""

    def retire(self) -> None:
        """End whatever holds the manager: no platform wants it any more."""


class LocalHandle:
    """A worker in this process."""

    def __init__(self, settings: WorkerSettings) -> None:
        # A manager whose workers are elsewhere needs no torch.
        from rollouts.fleet.manager.worker_kinds import begin

        self._wrapper = begin(settings)

    def submit(self, method: str, *arguments: object) -> Future[Any]:
        """Call the method here and now: none of them waits."""
        future: Future[Any] = Future()
        try:
            future.set_result(getattr(self._wrapper, method)(*arguments))
        except Exception as error:  # noqa: BLE001 carried over to whoever asks for the result
            future.set_exception(error)
        return future

    def kill(self) -> None:
        """End the worker's loops and environments."""
        self._wrapper.stop()

    def obstacle(self) -> str:
        """Return nothing: threads always start."""
        return ""

    def is_seated(self) -> bool:
        """Return True: it is here."""
        return True


class LocalWorkers:
    """Starts workers in this process."""

    def spawn(self, settings: WorkerSettings) -> WorkerHandle:
        """Start a worker's loops."""
        return LocalHandle(settings)

    def stay_off(self, nodes: frozenset[str]) -> None:
        """Do nothing: all workers are here."""

    def share(self, record: WeightsRecord) -> WeightsOffer:
        """Return the record itself."""
        return record

    def read_log(self, index: int, slot: int | None, lines: int) -> Future[Any] | None:  # noqa: ARG002
        """Return None: all workers are here."""
        return None

    def close(self) -> None:
        """Do nothing: nothing is reserved."""

    def retire(self) -> None:
        """Do nothing: the manager is a part of its caller."""


def cause_of(error: Exception) -> str:
    """Return what happened in one line; Ray puts the worker's own exception into the last one."""
    lines = str(error).strip().splitlines() or [""]
    is_trace = lines[0].rstrip().endswith(")") and len(lines) > 1 and "ray::" in lines[0]
    text = lines[-1] if is_trace else lines[0]
    return f"{type(error).__name__}: {text}"[:500]
