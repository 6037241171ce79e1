"""Views are saved for a user, a run, a tag or all runs."""

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client

from runs.events.models import RunEvent
from runs.saved.models import SavedObject
from tests.factories import NOON, make_run, make_user

pytestmark = pytest.mark.django_db

PATH = "/api/v1/views"
VIEW = {
    "runs": "beta,gamma",
    "x": "time",
    "from": 5.0,
    "to": 9.5,
    "smooth": 0.5,
    "charts": ["loss", "/^grad/", "= a / b"],
    "looks": {"loss": "log,x:tokens"},
}


def person(name: str, role: str) -> Client:
    client = Client()
    client.force_login(make_user(username=name, role=role))
    return client


@pytest.fixture
def people() -> tuple[Client, Client]:
    """Return clients of an operator and a viewer; the run alpha has a tag."""
    make_run(name="alpha", tags=["ablation"])
    make_run(name="beta", tags=["ablation"])
    make_run(name="gamma")
    return person("olga", "operator"), person("vic", "viewer")


def keep(client: Client, **fields: Any) -> Any:
    body = {"name": "losses", "view": VIEW, **fields}
    return client.post(PATH, body, content_type="application/json")


def names(client: Client, run: str = "") -> list[tuple[str, str]]:
    rows = client.get(PATH, {"run": run} if run else {}).json()["results"]
    return [(row["name"], row["share"]) for row in rows]


def test_a_private_view_exists_for_its_owner_only(people: tuple[Client, Client]) -> None:
    olga, vic = people
    answer = keep(vic)

    assert answer.status_code == 201, answer.content
    assert answer.json()["view"] == VIEW
    assert names(vic, "gamma") == names(vic) == [("losses", "mine")]
    assert names(olga) == []
    assert keep(vic).status_code == 409
    assert keep(olga).status_code == 201


def test_operators_share_views_with_a_run_a_tag_or_all(people: tuple[Client, Client]) -> None:
    olga, vic = people
    assert keep(vic, share="run", run="alpha").status_code == 403
    assert keep(olga, share="run", run="alpha", reason="for the review").status_code == 201
    assert keep(olga, share="tag", tag="Ablation", name="of the tag").status_code == 201
    assert keep(olga, share="all", name="of all").status_code == 201
    assert keep(olga, share="tag", tag="").status_code == 400
    assert keep(olga, share="run", run="missing").status_code == 404

    every, tagged = ("of all", "all"), ("of the tag", "tag")
    assert names(vic, "alpha") == [("losses", "run"), every, tagged]
    assert names(vic, "beta") == [every, tagged]
    assert names(vic, "gamma") == [every]
    assert names(vic) == [("losses", "run"), every, tagged]
    assert vic.get(PATH, {"run": "missing"}).status_code == 404
    event = RunEvent.objects.filter(kind="view_saved").order_by("pk").first()
    assert event is not None
    assert (event.actor, event.reason) == ("user:olga", "for the review")


def test_the_owner_of_a_view_and_operators_may_change_it(people: tuple[Client, Client]) -> None:
    olga, vic = people
    shared, own = keep(olga, share="all").json()["id"], keep(vic).json()["id"]
    view = {"name": "all", "view": {"q": "loss"}}

    def put(client: Client, row: int, **fields: Any) -> int:
        body = view | fields
        return client.put(f"{PATH}/{row}", body, content_type="application/json").status_code

    assert (put(vic, own), put(vic, shared), put(olga, own)) == (200, 403, 404)
    assert put(olga, shared, share="run", run="alpha") == 200
    assert vic.delete(f"{PATH}/{shared}").status_code == 403
    assert vic.delete(f"{PATH}/{own}?reason=done").status_code == 204
    assert olga.delete(f"{PATH}/{shared}").status_code == 204
    assert not SavedObject.objects.filter(deleted_at=None).exists()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": " "}, "name"),
        ({"share": "everyone"}, "share"),
        ({"view": {"smooth": 1}}, "view.smooth"),
        ({"view": {"charts": [""]}}, "view.charts[...]"),
        ({"view": {"looks": {"loss": ""}}}, "view.looks"),
        ({"view": {"by": "moon"}}, "view.by"),
        ({"view": {"colour": "red"}}, "view.colour"),
    ],
)
def test_an_invalid_view_is_refused(
    people: tuple[Client, Client], fields: dict[str, Any], field: str
) -> None:
    answer = keep(people[0], **fields)

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"].startswith(field.partition("[")[0])
    assert not SavedObject.objects.exists()


def test_layouts_of_earlier_versions_become_views(people: tuple[Client, Client]) -> None:
    layout = {
        "search": "loss",
        "under": "",
        "x": "step",
        "smooth": 0.9,
        "pinned": ["kl"],
        "logarithmic": ["kl"],
        "panels": ["^grad/", "= a / b"],
    }
    row = SavedObject(kind="layout", name="losses", body=layout, access="private")
    row.author, row.created_at, row.changed_at = "user:vic", NOON, NOON
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE runs_savedobject DROP CONSTRAINT saved_object_kind_is_known")
    row.save()

    import_module("runs.migrations.0011_saved_views").views_of_layouts(apps, None)

    (view,) = people[1].get(PATH).json()["results"]
    assert view["id"] == row.pk
    assert view["view"] == {
        "q": "loss",
        "smooth": 0.9,
        "charts": ["kl", "/^grad//", "= a / b"],
        "looks": {"kl": "log"},
    }
