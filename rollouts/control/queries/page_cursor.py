"""Queries for the placement of workers."""

from typing import Final

from django.db.models import Count

from rollouts.control.models import FleetWorker

ABSENT: Final = ("stopped", "failed", "respawning")
"""States of workers without a node."""


def workers_by_node() -> list[tuple[str, str, str, int]]:
    """Return the number of workers of each run on each node, as last reported.

    Returns:
        Host and Ray id of the node, the run's name, and the number of workers.
    """
    there = FleetWorker.objects.exclude(fleet__incarnation="").exclude(node="")
    names = ("node", "node_id", "fleet__run__name")
    rows = there.exclude(state__in=ABSENT).values_list(*names).annotate(workers=Count("pk"))
    return list(rows.order_by("node", "fleet__run__name", "node_id"))
