"""Saved objects: names, limits, revisions and audit entries of any kind."""

from datetime import timedelta
from typing import Any, Final

import pytest
from django.contrib import admin
from django.db import IntegrityError, transaction

from runs.events.models import RunEvent
from runs.saved import services as saved
from runs.saved.models import SavedObject
from runs.saved.rules import Access, SavedKind
from tests.factories import NOON, make_run

pytestmark = pytest.mark.django_db


class Taken(Exception):
    pass


class Full(Exception):
    pass


KIND: Final = SavedKind(
    name="view", body="view", text="remarks", name_taken=Taken, at_most=2, too_many=Full
)


def save(name: str = "a", *, actor: str = "user:ada", **columns: Any) -> SavedObject:
    row = SavedObject(name=name, **{"access": Access.PRIVATE, "body": {"x": 1}, **columns})
    return saved.save(KIND, row, actor=actor, reason="because", now=NOON)


def test_a_name_is_taken_once_per_scope_until_its_object_is_deleted() -> None:
    run = make_run()
    first = save()
    save(actor="user:bob")
    save(run=run, access=Access.OPEN)
    save(tag="sweep", access=Access.OPEN)

    with pytest.raises(Taken, match="a view named 'a' already exists"):
        save()
    saved.delete(first, actor="user:ada", now=NOON)

    assert save().revision == 1
    assert SavedObject.objects.of(KIND).count() == 4
    assert SavedObject.objects.count() == 5


def test_a_limit_counts_the_objects_of_one_scope_without_deleted_ones() -> None:
    first = save("a")
    save("b")
    save("c", actor="user:bob")
    save("d", tag="sweep", access=Access.OPEN)

    with pytest.raises(Full, match="all 2 places for views are used; delete one first"):
        save("e")
    saved.delete(first, actor="user:ada", now=NOON)
    save("e")


def test_a_change_is_the_next_revision_and_the_audit_log_has_the_difference() -> None:
    row, later = save(access=Access.OPEN, tag="sweep"), NOON + timedelta(hours=1)

    changes = {"name": "b", "body": {"x": 2, "y": 0}}
    saved.change(KIND, row, changes, actor="user:bob", reason="typo", now=later)

    row.refresh_from_db()
    assert (row.revision, row.author, row.changed_by) == (2, "user:ada", "user:bob")
    assert (row.created_at, row.changed_at) == (NOON, later)
    event = RunEvent.objects.latest("pk")
    assert (event.kind, event.actor, event.reason) == ("view_changed", "user:bob", "typo")
    assert event.message == "view b changed: name, view"
    assert event.details == {
        "id": row.pk,
        "name": {"before": "a", "after": "b"},
        "view.x": {"before": 1, "after": 2},
        "view.y": {"before": None, "after": 0},
    }


@pytest.mark.parametrize("access", [Access.PRIVATE, Access.SHARED])
def test_the_audit_log_omits_the_contents_of_private_objects(access: Access) -> None:
    row = save(text="draft")

    changes = {"access": access, "body": {"x": 2}, "text": "final"}
    saved.change(KIND, row, changes, actor="user:ada", now=NOON)

    first, last = RunEvent.objects.order_by("pk").values_list("details", flat=True)
    assert first == {"id": row.pk, "name": "a", "access": "private"}
    assert {"view.x"}.isdisjoint(last)
    assert last["remarks"] == {"before": "draft", "after": "final"}


def test_events_go_to_the_history_of_the_run_where_they_happened() -> None:
    run = make_run()
    row = SavedObject(name="a", access=Access.PRIVATE, body={})
    saved.save(KIND, row, run_id=run.pk, actor="user:ada", now=NOON)
    saved.delete(row, run_id=run.pk, actor="user:ada", now=NOON)

    events = run.events.filter(kind__startswith="view_").order_by("pk")
    assert [event.kind for event in events] == ["view_saved", "view_deleted"]


@pytest.mark.parametrize(
    "columns", [{"kind": "poem"}, {"access": "secret"}, {"tag": "sweep"}, {"kind": "preset"}]
)
def test_the_database_refuses_other_kinds_access_and_scopes(columns: dict[str, str]) -> None:
    row = save("a", run=make_run())

    with pytest.raises(IntegrityError), transaction.atomic():
        SavedObject.objects.filter(pk=row.pk).update(**columns)


@pytest.mark.parametrize(
    ("kind", "page"),
    [("preset", "/runs/new?preset=a"), ("view", None)],
)
def test_the_admin_links_to_the_page_that_uses_an_object(kind: str, page: str | None) -> None:
    pages = admin.site.get_model_admin(SavedObject)
    row = SavedObject(kind=kind, name="a")

    assert pages.view_on_site(row) == page  # type: ignore[operator]
    row.deleted_at = NOON
    assert pages.view_on_site(row) is None  # type: ignore[operator]
