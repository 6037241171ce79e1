"""Read where the workers of fleets are."""

from typing import Final

from django.db.models import Count

from rollouts.control.models.fleets import FleetWorker

ABSENT: Final = ("stopped", "failed", "respawning")
"""States of workers that are nowhere."""


def workers_by_node() -> list[tuple[str, str, str, int]]:
    """Return how many workers of which run are on which node, as they last said.

    Returns:
        Host and Ray's id of the node, the run's name, and the workers.
    """
    there = FleetWorker.objects.exclude(fleet__incarnation="").exclude(node="")
    names = ("node", "node_id", "fleet__run__name")
    rows = there.exclude(state__in=ABSENT).values_list(*names).annotate(workers=Count("pk"))
    return list(rows.order_by("node", "fleet__run__name", "node_id"))
