"""Queries for the metric layouts that a user may apply to a run."""

import msgspec
from django.db.models import Q

from rollouts.metrics.rules.layouts import LAYOUT
from rollouts.metrics.schemas.layouts import MetricLayoutRow, MetricLayouts, MetricView
from runs.access.queries.audit import shown_name, token_names
from runs.lifecycle.models.runs import Run
from runs.saved.models import SavedObject, SavedObjectQuerySet


def layouts_for(run: Run, *, asker: str) -> SavedObjectQuerySet:
    """Return the layouts that a user sees in a run: private, of the run, and of its tags."""
    own = Q(author=asker, run=None, tag="")
    return SavedObject.objects.of(LAYOUT).filter(
        own | Q(run=run) | Q(tag__in=run.tags, run=None) & ~Q(tag="")
    )


def layout_list(run: Run, *, asker: str, may_operate: bool) -> MetricLayouts:
    """Return the layouts by name."""
    rows = list(layouts_for(run, asker=asker).order_by("name", "pk"))
    names = token_names(row.changed_by for row in rows)
    return MetricLayouts(
        results=[
            layout_row(row, names=names, may_change=may_operate or row.author == asker)
            for row in rows
        ],
        next=None,
    )


def layout_row(row: SavedObject, *, names: dict[str, str], may_change: bool) -> MetricLayoutRow:
    """Return a layout in the API format; `names` are the names of tokens by identity."""
    return MetricLayoutRow(
        id=row.pk,
        name=row.name,
        share="run" if row.run_id else "tag" if row.tag else "mine",
        tag=row.tag,
        view=msgspec.convert(row.body, MetricView),
        changed_at=row.changed_at,
        changed_by=shown_name(row.changed_by, names),
        may_change=may_change,
    )
