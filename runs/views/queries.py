"""Queries for saved views."""

import msgspec
from django.db.models import Q

from runs.access.queries import shown_name, token_names
from runs.lifecycle.models import Run
from runs.saved.models import SavedObject, SavedObjectQuerySet
from runs.saved.rules import Access
from runs.views.rules import VIEW
from runs.views.schemas import View, ViewRow, Views


def views_for(asker: str) -> SavedObjectQuerySet:
    """Return the views that a user sees: private ones and all shared ones."""
    found = SavedObject.objects.of(VIEW).select_related("run")
    return found.filter(Q(author=asker) | ~Q(access=Access.PRIVATE))


def view_list(run: Run | None, *, asker: str, may_operate: bool) -> Views:
    """Return the views of a run, of its tags and of all runs, by name; without a run all views."""
    found = views_for(asker)
    if run is not None:
        found = found.filter(Q(run=run) | Q(run=None, tag__in=["", *run.tags]))
    rows = list(found.order_by("name", "pk"))
    names = token_names(row.changed_by for row in rows)
    return Views(
        results=[
            view_row(row, names=names, may_change=may_operate or row.author == asker)
            for row in rows
        ],
        next=None,
    )


def view_row(row: SavedObject, *, names: dict[str, str], may_change: bool) -> ViewRow:
    """Return a view in the API format; `names` are the names of tokens by identity."""
    is_private = row.access == Access.PRIVATE
    return ViewRow(
        id=row.pk,
        name=row.name,
        share="mine" if is_private else "run" if row.run else "tag" if row.tag else "all",
        run=row.run.name if row.run else "",
        run_uid=row.run.uid if row.run else None,
        tag=row.tag,
        view=msgspec.convert(row.body, View),
        changed_at=row.changed_at,
        changed_by=shown_name(row.changed_by, names),
        may_change=may_change,
    )
