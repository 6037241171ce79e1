"""Find a seat of a run's fleet, and demand that who was meant still holds it."""

from dataclasses import dataclass
from typing import Final

from django.db.models import QuerySet

from rollouts.control.models.fleets import FleetWorker
from runs.core.lifecycle import RunStatus

WITH_FLEET: Final = (
    *(RunStatus.STARTING, RunStatus.RUNNING),
    *(RunStatus.PAUSED, RunStatus.DRAINING),
)


class WorkerNotFound(LookupError):
    """The run's fleet has no worker of that index."""


class WorkerNotThere(Exception):
    """The worker was replaced or cordoned since, or its fleet is gone."""


@dataclass(frozen=True, kw_only=True)
class Seat:
    """A place in a fleet, which one incarnation of a worker after the other holds."""

    index: int
    row: QuerySet[FleetWorker]
    holder: str
    """The incarnation that was there when it was looked for."""

    def held_by(self, incarnation: str) -> QuerySet[FleetWorker]:
        """Return the seat while that incarnation holds it and a fleet runs, else no row."""
        living = self.row.filter(incarnation=incarnation, fleet__run__status__in=WITH_FLEET)
        return living.exclude(fleet__incarnation="")

    def demand(self, incarnation: str) -> None:
        """Insist on that incarnation.

        Raises:
            WorkerNotThere: If another one holds the seat, or no fleet runs.
        """
        if self.held_by(incarnation).exists():
            return
        raise WorkerNotThere(
            f"worker {self.index} is {self.holder} now"
            if self.holder != incarnation
            else "the run has no fleet at present"
        )


def seat_of(run_id: int, index: int) -> Seat:
    """Return a seat of the run's fleet.

    Raises:
        WorkerNotFound: If the fleet has no such worker.
    """
    row = FleetWorker.objects.filter(fleet__run_id=run_id, index=index)
    holder = row.values_list("incarnation", flat=True).first()
    if holder is None:
        raise WorkerNotFound(f"the fleet has no worker {index}")
    return Seat(index=index, row=row, holder=holder)
