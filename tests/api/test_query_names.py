"""Query parameters that an operation does not have are refused, with the names that it has."""

import re
from typing import Final

import pytest
from rest_framework.test import APIClient

from tests.factories import bearer, make_outside_run, make_run, make_user
from tests.routes import routes

pytestmark = pytest.mark.django_db

NATIVE: Final = [route for route in routes() if route.address.startswith("/api/v1/")]
WORD: Final = "0b6f7b1e-3f0f-4d0c-9d5a-0d1d7b1f0000"


def filled(address: str) -> str:
    """Return a URL below run alpha with a value for each of its parameters."""
    named = address.replace("<slug:run>", "alpha")
    worded = re.sub(r"<(?:slug|str|uuid):\w+>", WORD, named)
    return re.sub(r"<(?:small|large|step):\w+>", "1", worded)


@pytest.fixture
def ada() -> APIClient:
    client = APIClient()
    client.force_login(make_user(username="ada", role="admin"))
    return client


def test_every_native_operation_refuses_an_unknown_parameter(ada: APIClient) -> None:
    make_run(name="alpha")
    accepted = []
    for route in NATIVE:
        for method in route.methods:
            answer = ada.generic(method, f"{filled(route.address)}?limt=5")
            refusal = answer.json() if answer.content and answer.status_code == 400 else {}
            fields = [error["field"] for error in refusal.get("errors", [])]
            if fields != ["limt"]:
                accepted.append((method, route.address, answer.status_code))

    assert len(NATIVE) > 150
    assert accepted == []


@pytest.mark.parametrize(
    ("place", "name", "known"),
    [
        ("trajectories?limt=5", "limt", "limit, q"),
        ("trajectories?ordering=-score", "ordering", "sort"),
        ("trajectories?limit=5&order=score", "order", "sort"),
        ("runs/alpha/events?sort=score", "sort", "limit"),
        ("trajectories?Limit=5", "Limit", "limit"),
        ("trajectories?limt", "limt", "limit"),
        ("trajectories?sort%5B%5D=score", "sort[]", "sort"),
        ("runs/alpha/events?kind=status", "kind", "cursor, kinds, limit"),
        ("runs/alpha/metrics/samples?names=loss", "names", "after, limit, name"),
        ("runs/alpha?fields=name", "fields", "this request has none"),
        ("runs?" + "x" * 5000, "x" * 60, "limit"),
    ],
)
def test_a_refusal_lists_the_parameters_of_the_operation(
    ada: APIClient, place: str, name: str, known: str
) -> None:
    make_run(name="alpha")
    answer = ada.get(f"/api/v1/{place}")

    assert answer.status_code == 400
    (error,) = answer.json()["errors"]
    assert (answer.json()["code"], error["field"]) == ("invalid", name)
    for each in known.split(", ") if "," in known else [known]:
        assert each in error["message"]


def test_credentials_and_methods_are_checked_first(ada: APIClient) -> None:
    make_run(name="alpha")

    assert APIClient().get("/api/v1/runs?limt=5").status_code == 401
    wrong = APIClient().get("/api/v1/audit?limt=5", headers=bearer("env"))
    assert wrong.status_code == 403
    assert ada.get("/api/v1/runs/alpha/pause?limt=5").status_code == 405
    assert ada.options("/api/v1/runs?limt=5").status_code == 200


@pytest.mark.parametrize("prefix", ["", "/atropos/words"])
@pytest.mark.parametrize(
    ("method", "name"),
    [
        *(("GET", name) for name in ("", "wandb_info", "info", "status", "batch")),
        *(("GET", name) for name in ("latest_example", "status-env")),
        *(("POST", name) for name in ("register", "register-env", "scored_data")),
    ],
)
def test_the_atropos_routes_ignore_unknown_parameters(method: str, name: str, prefix: str) -> None:
    make_outside_run(name="words")
    headers = bearer("admin")
    plain, asked = (
        APIClient().generic(
            method, f"{prefix}/{name}{query}", "{}", "application/json", headers=headers
        )
        for query in ("", "?limt=5")
    )

    assert (asked.status_code, asked.content) == (plain.status_code, plain.content)
