"""Metric layouts are saved for a user, a run or a tag."""

from typing import Any

import pytest
from django.test import Client

from rollouts.metrics.services.metrics import Figure, store_figures
from runs.events.models import RunEvent
from runs.saved.models import SavedObject
from tests.factories import NOON, make_run, make_user

pytestmark = pytest.mark.django_db

PATH = "/api/v1/runs/alpha/metric-layouts"
VIEW = {"x": "time", "pinned": ["loss"], "panels": ["^grad/"]}


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


def keep(client: Client, path: str = PATH, **fields: Any) -> Any:
    body = {"name": "losses", "view": VIEW, **fields}
    return client.post(path, body, content_type="application/json")


def names(client: Client, run: str = "alpha") -> list[tuple[str, str]]:
    rows = client.get(f"/api/v1/runs/{run}/metric-layouts").json()["results"]
    return [(row["name"], row["share"]) for row in rows]


def test_a_private_layout_exists_in_every_run_and_for_its_owner_only(
    people: tuple[Client, Client],
) -> None:
    olga, vic = people
    answer = keep(vic)

    assert answer.status_code == 201, answer.content
    assert answer.json()["view"].items() >= VIEW.items()
    assert names(vic, "gamma") == [("losses", "mine")]
    assert names(olga) == []
    assert keep(vic).status_code == 409
    assert keep(olga).status_code == 201


def test_operators_share_layouts_with_a_run_or_a_tag(people: tuple[Client, Client]) -> None:
    olga, vic = people
    assert keep(vic, share="run").status_code == 403
    assert keep(olga, share="run", reason="for the review").status_code == 201
    assert keep(olga, share="tag", tag="Ablation", name="of the tag").status_code == 201
    assert keep(olga, share="tag", tag="").status_code == 400

    assert names(vic) == [("losses", "run"), ("of the tag", "tag")]
    assert names(vic, "beta") == [("of the tag", "tag")]
    assert names(vic, "gamma") == []
    event = RunEvent.objects.filter(kind="layout_saved").order_by("pk").first()
    assert event is not None
    assert (event.actor, event.reason) == ("user:olga", "for the review")


def test_the_owner_of_a_layout_and_operators_may_change_it(people: tuple[Client, Client]) -> None:
    olga, vic = people
    shared, own = keep(olga, share="run").json()["id"], keep(vic).json()["id"]
    layout = {"name": "all", "view": {"search": "loss"}}

    def put(client: Client, row: int, **fields: Any) -> int:
        path = f"{PATH}/{row}"
        body = layout | fields
        return client.put(path, body, content_type="application/json").status_code

    assert (put(vic, own), put(vic, shared), put(olga, own)) == (200, 403, 404)
    assert put(olga, shared, share="run") == 200
    assert vic.delete(f"{PATH}/{shared}").status_code == 403
    assert vic.delete(f"{PATH}/{own}?reason=done").status_code == 204
    assert olga.delete(f"{PATH}/{shared}").status_code == 204
    assert not SavedObject.objects.filter(deleted_at=None).exists()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": " "}, "name"),
        ({"share": "all"}, "share"),
        ({"view": {"smooth": 1}}, "view.smooth"),
        ({"view": {"panels": [""]}}, "view.panels[...]"),
        ({"view": {"colour": "red"}}, "view.colour"),
    ],
)
def test_an_invalid_layout_is_refused(
    people: tuple[Client, Client], fields: dict[str, Any], field: str
) -> None:
    answer = keep(people[0], **fields)

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"].startswith(field.partition("[")[0])
    assert not SavedObject.objects.exists()


def test_all_metric_names_of_a_run_are_returned_at_once(people: tuple[Client, Client]) -> None:
    alpha = make_run(name="named")
    figures = [Figure(name, 1, 1.0) for name in ("b/c", "a", "b/a")]
    store_figures(run_id=alpha.pk, figures=figures, now=NOON)

    assert people[1].get("/api/v1/runs/named/metrics/names").json() == {
        "results": ["a", "b/a", "b/c"],
        "next": None,
    }
