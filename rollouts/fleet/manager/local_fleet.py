"""Run a whole fleet in one process, without a cluster."""

from types import TracebackType
from typing import Self

from rolldeck.wire import FleetReport
from rollouts.fleet.manager.manager import RolloutManager
from rollouts.fleet.manager.workers import LocalWorkers
from rollouts.fleet.worker.settings import FleetSettings


class LocalFleet:
    """The manager and workers of a cluster's fleet, as threads; a context manager.

    Only the environments are processes of their own, as everywhere.
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
        """Return how the fleet is."""
        return self._manager.snapshot()
