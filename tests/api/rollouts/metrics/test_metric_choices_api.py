"""The metrics that a person chose last are stored per page and kind of run."""

from typing import Any

import pytest
from django.test import Client

from rollouts.metrics.models.choices import MetricChoice
from runs.events.models import RunEvent
from tests.factories import make_user

pytestmark = pytest.mark.django_db

PATH = "/api/v1/metric-choices"
VIEW = {"metrics": ["loss"], "x": "time", "panels": ["^grad/"]}


@pytest.fixture
def vic() -> Client:
    return person("vic")


def person(name: str) -> Client:
    client = Client()
    client.force_login(make_user(username=name, role="viewer"))
    return client


def choose(client: Client, *, status: int = 200, **fields: Any) -> Any:
    body = {"page": "metrics", "kind": "fleet", "view": VIEW, **fields}
    answer = client.put(PATH, body, content_type="application/json")
    assert answer.status_code == status, answer.content
    return answer.json()


def choices(client: Client) -> list[tuple[str, str, list[str]]]:
    rows = client.get(PATH).json()["results"]
    return [(row["page"], row["kind"], row["view"]["metrics"]) for row in rows]


def test_a_choice_is_replaced_and_belongs_to_its_page_and_kind(vic: Client) -> None:
    assert choices(vic) == []
    (row,) = choose(vic)["results"]
    assert row["view"].items() >= VIEW.items()
    choose(vic, view={"metrics": ["kl"]})
    choose(vic, kind="language")
    choose(vic, page="compare", kind="mixed", view={"metrics": ["a", "b"]})

    assert choices(vic) == [
        ("compare", "mixed", ["a", "b"]),
        ("metrics", "fleet", ["kl"]),
        ("metrics", "language", ["loss"]),
    ]
    assert MetricChoice.objects.count() == 3


def test_a_choice_is_that_of_one_person(vic: Client) -> None:
    choose(vic)
    olga = person("olga")

    assert choices(olga) == []
    choose(olga, view=None)
    assert choices(vic) == [("metrics", "fleet", ["loss"])]


def test_a_choice_of_null_is_the_default_again(vic: Client) -> None:
    choose(vic)
    assert choose(vic, view=None)["results"] == []
    assert choose(vic, view=None)["results"] == []


def test_an_automatic_choice_has_no_audit_entry(vic: Client) -> None:
    choose(vic)

    assert not RunEvent.objects.exists()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"page": "overview"}, "page"),
        ({"kind": "other"}, "kind"),
        ({"view": {"smooth": 1}}, "view.smooth"),
        ({"view": {"metrics": [""]}}, "view.metrics"),
        ({"view": {"search": "loss"}}, "view.search"),
    ],
)
def test_an_invalid_choice_is_refused(vic: Client, fields: dict[str, Any], field: str) -> None:
    (error, *_) = choose(vic, status=400, **fields)["errors"]

    assert error["field"].startswith(field)
    assert choices(vic) == []
