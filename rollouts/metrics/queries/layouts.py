"""Read the layouts that somebody may look at a run's metrics with."""

import msgspec
from django.db.models import Q, QuerySet

from rollouts.metrics.models.layouts import MetricLayout
from rollouts.metrics.schemas.layouts import MetricLayoutRow, MetricLayouts, MetricLook
from runs.models import Run
from runs.selectors.watching import shown_name, token_names


class LayoutNotFound(LookupError):
    """There is no such layout for this run, or it is somebody else's own."""


def layouts_for(run: Run, *, asker: str) -> QuerySet[MetricLayout]:
    """Return the layouts that somebody sees in a run: their own, the run's, those of its tags."""
    own = Q(owner=asker, run=None, tag="")
    return MetricLayout.objects.filter(
        own | Q(run=run) | Q(tag__in=run.tags, run=None) & ~Q(tag="")
    )


def layout_list(run: Run, *, asker: str, may_operate: bool) -> MetricLayouts:
    """Return them by name."""
    rows = list(layouts_for(run, asker=asker).order_by("name", "pk"))
    names = token_names(row.changed_by for row in rows)
    return MetricLayouts(
        results=[
            layout_row(row, names=names, may_change=may_operate or row.owner == asker)
            for row in rows
        ]
    )


def layout_row(row: MetricLayout, *, names: dict[str, str], may_change: bool) -> MetricLayoutRow:
    """Return a layout as pages show it; `names` are those of tokens, by identity."""
    return MetricLayoutRow(
        id=row.pk,
        name=row.name,
        share="run" if row.run_id else "tag" if row.tag else "mine",
        tag=row.tag,
        look=msgspec.convert(row.look, MetricLook),
        changed_at=row.changed_at,
        changed_by=shown_name(row.changed_by, names),
        may_change=may_change,
    )
