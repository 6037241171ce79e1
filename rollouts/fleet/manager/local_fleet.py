"""Run a complete fleet in one process, without a cluster."""

from types import TracebackType
from typing import Self

from rolldeck.wire import FleetReport
from rollouts.fleet.manager.manager import RolloutManager
from rollouts.fleet.manager.workers import LocalWorkers
from rollouts.fleet.process.settings import FleetSettings


class LocalFleet:
    """Manager and workers of a fleet as threads of this process; a context manager.

    Environments still run in separate processes.
    """

    def __init__(self, settings: FleetSettings) -> None:
        """Start the fleet."""
        self._manager = RolloutManager(settings, LocalWorkers())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._manager.shutdown()

    def snapshot(self) -> FleetReport:
        """Return the state of the fleet."""
        return self._manager.snapshot()
