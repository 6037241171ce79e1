"""Start of workers of any kind, and their sources: a Ray cluster, or the manager's own process."""

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.weights.records import WeightsOffer, WeightsRecord

if TYPE_CHECKING:
    from rollouts.fleet.worker.wrapper import WorkerWrapper


class WorkerHandle(Protocol):
    """Handle of one :class:`rollouts.fleet.worker.wrapper.WorkerWrapper`, local or remote."""

    def submit(self, method: str, *arguments: object) -> Future[Any]:
        """Call a method without waiting; the future fails when the worker is gone."""

    def kill(self) -> None:
        """End the worker at once; never waits and never raises."""

    def obstacle(self) -> str:
        """Return why the worker cannot start at present; empty if it can."""

    def is_placed(self) -> bool:
        """Return whether the worker has been placed; it may still be starting."""


class WorkerSource(Protocol):
    """Interface that starts workers."""

    def spawn(self, settings: WorkerSettings) -> WorkerHandle:
        """Start a worker; its first answer may take a while."""

    def exclude_nodes(self, nodes: frozenset[str]) -> None:
        """Place further workers on other nodes than these, given by Ray's node ids."""

    def share(self, record: WeightsRecord) -> WeightsOffer:
        """Return the object to pass to `update_weights`, the same for every worker."""

    def read_log(self, index: int, slot: int | None, lines: int) -> Future[Any] | None:
        """Read the log of a worker that ended, on the node where it ran.

        Returns:
            A future of the log lines, which fails if that node is gone. None if the worker ran on
            this node, or its node is unknown.
        """

    def close(self) -> None:
        """Release the resources reserved for workers; no more workers are started."""

    def retire(self) -> None:
        """End the process that holds the manager: the platform has replaced it."""


class LocalHandle:
    """A worker in this process."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._wrapper = begin(settings)

    def submit(self, method: str, *arguments: object) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(getattr(self._wrapper, method)(*arguments))
        except Exception as error:  # noqa: BLE001 re-raised by result()
            future.set_exception(error)
        return future

    def kill(self) -> None:
        self._wrapper.stop()

    def obstacle(self) -> str:
        return ""

    def is_placed(self) -> bool:
        return True


class LocalWorkers:
    """Source that starts workers in this process."""

    def spawn(self, settings: WorkerSettings) -> WorkerHandle:
        return LocalHandle(settings)

    def exclude_nodes(self, nodes: frozenset[str]) -> None:
        """Do nothing: all workers are in this process."""

    def share(self, record: WeightsRecord) -> WeightsOffer:
        return record

    def read_log(self, index: int, slot: int | None, lines: int) -> Future[Any] | None:  # noqa: ARG002
        return None

    def close(self) -> None:
        """Do nothing: nothing is reserved."""

    def retire(self) -> None:
        """Do nothing: the manager belongs to its caller."""


def begin(settings: WorkerSettings, *, owns_process: bool = False) -> "WorkerWrapper":
    """Return a worker with running loops.

    With `owns_process`, all log output of the process belongs to the worker.
    """
    # Each kind imports its own libraries. A manager whose workers are elsewhere needs none.
    if settings.fleet.config.language is not None:
        from rollouts.fleet.groups.wrapper import GroupWorkerWrapper

        return GroupWorkerWrapper(settings, owns_process=owns_process)
    from rollouts.fleet.steps.wrapper import RolloutWorkerWrapper

    return RolloutWorkerWrapper(settings, owns_process=owns_process)


def cause_of(error: Exception) -> str:
    """Return a one-line cause; Ray puts the worker's exception into the last line of its trace."""
    lines = str(error).strip().splitlines() or [""]
    is_trace = lines[0].rstrip().endswith(")") and len(lines) > 1 and "ray::" in lines[0]
    text = lines[-1] if is_trace else lines[0]
    return f"{type(error).__name__}: {text}"[:500]
