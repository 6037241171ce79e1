"""Lookup of a worker of a run's fleet, with a check of its incarnation."""

from dataclasses import dataclass
from typing import Final

from django.db.models import QuerySet

from rollouts.control.models import FleetWorker
from runs.lifecycle.rules import RunStatus
from web.rules.errors import Conflict, NotFound

WITH_FLEET: Final = (
    *(RunStatus.STARTING, RunStatus.RUNNING),
    *(RunStatus.PAUSED, RunStatus.DRAINING),
)


class WorkerNotFound(NotFound):
    """The run's fleet has no worker of that index."""


class WorkerNotThere(Conflict):
    """The worker was replaced or cordoned since, or its fleet is gone."""

    code = "worker_not_there"
    title = "The worker was replaced"


@dataclass(frozen=True, kw_only=True)
class PlacedWorker:
    """A worker index of a fleet, held by successive incarnations."""

    index: int
    row: QuerySet[FleetWorker]
    holder: str
    """Incarnation that held the index at the lookup."""

    def held_by(self, incarnation: str) -> QuerySet[FleetWorker]:
        """Return the worker's row while that incarnation holds it and a fleet runs, else no row."""
        living = self.row.filter(incarnation=incarnation, fleet__run__status__in=WITH_FLEET)
        return living.exclude(fleet__incarnation="")

    def demand(self, incarnation: str) -> None:
        """Check that the given incarnation holds the index.

        Raises:
            WorkerNotThere: If another one holds it, or no fleet runs.
        """
        if self.held_by(incarnation).exists():
            return
        raise WorkerNotThere(
            f"worker {self.index} has the incarnation {self.holder} now"
            if self.holder != incarnation
            else "the run has no running fleet"
        )


def placed_worker(run_id: int, index: int) -> PlacedWorker:
    """Return a worker of the run's fleet by index.

    Raises:
        WorkerNotFound: If the fleet has no such worker.
    """
    row = FleetWorker.objects.filter(fleet__run_id=run_id, index=index)
    holder = row.values_list("incarnation", flat=True).first()
    if holder is None:
        raise WorkerNotFound(f"the fleet has no worker {index}")
    return PlacedWorker(index=index, row=row, holder=holder)
