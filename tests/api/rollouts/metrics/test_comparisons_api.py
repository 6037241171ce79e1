"""A comparison is saved for all users, opened by its URL and deleted."""

from typing import Any

import pytest
from django.test import Client

from rollouts.metrics.rules import COMPARISON
from rollouts.metrics.services.metrics import Figure, store_figures
from runs.events.models import RunEvent
from runs.saved.models import SavedObject
from runs.saved.rules import Access
from tests.factories import NOON, make_run, make_user

pytestmark = pytest.mark.django_db

VIEW = {"runs": ["alpha", "beta"], "metrics": ["loss"], "hidden": ["beta"], "smooth": 0.6}


@pytest.fixture
def olga() -> Client:
    """An operator; the runs alpha and beta have recorded their loss."""
    for number, name in enumerate(("alpha", "beta"), start=1):
        run = make_run(name=name, config={"buffer": {"batch_size": 8 * number}})
        figures = [Figure("loss", step, number + step / 10) for step in range(5)]
        store_figures(run_id=run.pk, figures=figures, now=NOON)
    return person("olga", "operator")


def person(name: str, role: str) -> Client:
    client = Client()
    client.force_login(make_user(username=name, role=role))
    return client


def keep(client: Client, **fields: Any) -> Any:
    body = {"name": "Two losses", "view": VIEW, **fields}
    return client.post("/api/v1/comparisons", body, content_type="application/json")


def test_a_comparison_is_stored_shared_and_deleted_with_a_reason(olga: Client) -> None:
    answer = keep(olga, remarks="beta is worse", reason="for the paper")
    assert answer.status_code == 201, answer.content
    made = answer.json()
    vic = person("vic", "viewer")

    shown = vic.get(f"/api/v1/comparisons/{made['id']}").json()
    assert shown == made
    assert shown["view"]["metrics"] == ["loss"]
    assert (shown["view"]["x"], shown["view"]["begin"]) == ("step", None)
    assert [row["id"] for row in vic.get("/api/v1/comparisons").json()["results"]] == [made["id"]]

    assert keep(vic).status_code == 403
    assert vic.delete(f"/api/v1/comparisons/{made['id']}").status_code == 403
    assert olga.delete(f"/api/v1/comparisons/{made['id']}?reason=published").status_code == 204
    assert olga.delete(f"/api/v1/comparisons/{made['id']}").status_code == 404
    events = RunEvent.objects.filter(kind__startswith="comparison_").order_by("pk")
    assert list(events.values_list("kind", "actor", "reason")) == [
        ("comparison_saved", "user:olga", "for the paper"),
        ("comparison_deleted", "user:olga", "published"),
    ]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "  "}, "name"),
        ({"view": {**VIEW, "runs": []}}, "view.runs"),
        ({"view": {**VIEW, "runs": ["alpha", "nope"]}}, "view.runs"),
        ({"view": {**VIEW, "begin": 1.0}}, "view.end"),
        ({"view": {**VIEW, "begin": 5.0, "end": 1.0}}, "view.end"),
        ({"view": {**VIEW, "x": "moon"}}, "view.x"),
        ({"view": {**VIEW, "prompt": "short"}}, "view.prompt"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_invalid_comparisons_are_refused_with_their_field_and_not_stored(
    olga: Client, fields: dict[str, Any], field: str
) -> None:
    answer = keep(olga, **fields)

    assert answer.status_code == 400, answer.content
    assert [each["field"] for each in answer.json()["errors"]] == [field]
    assert not SavedObject.objects.exists()


def test_the_number_of_stored_comparisons_is_limited(olga: Client) -> None:
    plain = {"kind": "comparison", "name": "one", "body": VIEW, "access": Access.OPEN}
    times = {"created_at": NOON, "changed_at": NOON}
    rows = [SavedObject(**plain, **times) for _ in range(COMPARISON.at_most or 0)]
    SavedObject.objects.bulk_create(rows)

    answer = keep(olga)

    assert (answer.status_code, answer.json()["code"]) == (409, "too_many_comparisons")
