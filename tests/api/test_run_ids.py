"""The immutable id of a run is accepted in place of its name, in every operation of the API."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from django.db import transaction
from rest_framework.test import APIClient

from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus, is_run_uid
from tests.factories import make_run, make_token
from tests.run_objects import make_objects, named_by

pytestmark = pytest.mark.django_db

DOCUMENT: Final = json.loads(
    (Path(__file__).resolve().parents[2] / "docs/reference/openapi.json").read_text()
)
METHODS: Final = ("get", "post", "put", "patch", "delete")
OPERATIONS: Final = [
    (method, path)
    for path, operations in DOCUMENT["paths"].items()
    if "{run}" in path
    for method in METHODS
    if method in operations
]
# They differ between two requests.
VOLATILE: Final = ("at", "id", "request_id", "uuid")


@pytest.fixture
def run() -> Run:
    return make_run(name="alpha", kind="outside")


@pytest.fixture
def client() -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token('admin')[1]}")
    return client


def answer_of(client: APIClient, method: str, path: str) -> tuple[int, Any]:
    """Return status and content of a response; changes are rolled back."""
    parameters = {} if method == "get" else {"data": {}, "format": "json"}
    with transaction.atomic():
        answer = getattr(client, method)(path, **parameters)
        content = b"".join(answer) if answer.streaming else answer.content
        transaction.set_rollback(True)
    if not answer.headers.get("Content-Type", "").endswith("json"):
        return answer.status_code, len(content)
    found = json.loads(content)
    return answer.status_code, found.get("code", found) if isinstance(found, dict) else found


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_operation_answers_for_the_id_as_for_the_name(
    method: str, path: str, run: Run, client: APIClient
) -> None:
    made = make_objects(run, mark="mark")
    values: dict[str, Any] = {name: named_by(name, rows[0]) for name, rows in made.items()}
    values |= {"epoch": 1, "sequence": 0, "session": "mark"}

    def address(of: str) -> str:
        return path.format(**(values | {"run": of}))

    status, named = answer_of(client, method, address("alpha"))
    by_id = answer_of(client, method, address(run.uid))

    assert by_id[0] == status
    if not isinstance(named, dict):
        assert by_id[1] == named
    else:
        assert stable(by_id[1]) == stable(named)


def stable(answer: Any) -> Any:
    """Return an answer without the values that differ from request to request."""
    if isinstance(answer, list):
        return [stable(each) for each in answer]
    if not isinstance(answer, dict):
        return answer
    return {
        name: stable(value)
        for name, value in answer.items()
        if name not in VOLATILE and not name.endswith(("_at", "age_seconds"))
    }


@pytest.mark.parametrize("method", ["get", "patch"])
def test_a_token_of_a_run_passes_for_its_id_and_not_for_that_of_another(
    method: str, run: Run
) -> None:
    other, client = make_run(name="beta"), APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token('admin', run=run)[1]}")

    assert answer_of(client, method, f"/api/v1/runs/{run.uid}")[0] in (200, 400)
    assert answer_of(client, method, f"/api/v1/runs/{other.uid}")[0] == 403


def test_the_id_names_one_run_when_its_name_names_another(client: APIClient, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(status=RunStatus.RUNNING)
    fresh = client.post("/api/v1/runs/alpha/reset", {"reason": "again"}, format="json").json()

    assert client.get("/api/v1/runs/alpha").json()["uid"] == fresh["uid"] != run.uid
    assert client.get(f"/api/v1/runs/{run.uid}").json()["id"] == run.pk
    refused = client.post(f"/api/v1/runs/{run.uid}/pause", {}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "run_archived")
    push = {"tokens": [[1]], "masks": [[1]], "scores": [1.0]}
    refused = client.post(f"/api/v1/runs/{run.uid}/groups", push, format="json")
    assert refused.json()["code"] == "run_archived", refused.content


def test_a_deleted_run_is_named_by_its_id(client: APIClient) -> None:
    run = make_run(name="gone", status=RunStatus.STOPPED)

    deletion = client.delete(f"/api/v1/runs/{run.uid}?reason=old").json()

    assert (deletion["run"], deletion["run_uid"]) == ("gone", run.uid)
    answer = client.get(f"/api/v1/runs/{run.uid}")
    assert (answer.status_code, answer.json()["code"]) == (404, "run_deleted")


def test_ids_are_unique_and_no_name_has_their_form(client: APIClient, run: Run) -> None:
    other = make_run(name="beta")
    assert is_run_uid(run.uid)
    assert is_run_uid(other.uid)
    assert run.uid != other.uid

    answer = client.post("/api/v1/runs", {"name": run.uid, "kind": "outside"}, format="json")

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "name")


@pytest.mark.parametrize("path", ["/api/v1/alerts", "/api/v1/audit", "/api/v1/trajectories"])
def test_lists_filter_by_the_id(path: str, client: APIClient, run: Run) -> None:
    make_run(name="beta")
    query = "&kind=group" if path.endswith("trajectories") else ""

    by_id = client.get(f"{path}?run={run.uid}{query}")

    assert by_id.status_code == 200, by_id.content
    assert by_id.json()["results"] == client.get(f"{path}?run=alpha{query}").json()["results"]


def test_every_schema_with_the_name_of_a_run_has_its_id() -> None:
    # Those of a request's address, and those whose `run` is a whole run.
    without = {"MetricLine", "LiveTopics", "RunTopicParts"}
    schemas = DOCUMENT["components"]["schemas"]
    named = {
        name
        for name, schema in schemas.items()
        if "run" in schema.get("properties", {}) and not name.endswith(("Request", "Run"))
    }

    assert {name for name in named if "run_uid" not in schemas[name]["properties"]} <= without
