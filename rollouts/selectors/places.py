"""Read where the workers of fleets are."""

from django.db.models import Count

from rollouts.models import FleetWorker


def workers_by_node() -> list[tuple[str, str, int]]:
    """Return how many workers of which run are on which node, as they last said."""
    there = FleetWorker.objects.exclude(fleet__incarnation="").exclude(node="")
    there = there.exclude(state__in=["stopped", "failed"])
    rows = there.values_list("node", "fleet__run__name").annotate(workers=Count("pk"))
    return [
        (node, run, workers) for node, run, workers in rows.order_by("node", "fleet__run__name")
    ]
