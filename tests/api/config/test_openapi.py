import io
import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.core.management import call_command
from django.test import Client
from drf_spectacular.generators import SchemaGenerator


def test_the_openapi_schema_is_valid_and_complete() -> None:
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=io.StringIO())


@pytest.mark.django_db
def test_the_schema_and_its_page_are_served_without_login() -> None:
    schema = Client().get("/openapi.json").json()

    assert schema["paths"]["/api/v1/runs"]["post"]["operationId"] == "runs_create"
    assert "RunDetail" in schema["components"]["schemas"]
    assert Client().get("/docs").status_code == 200


@pytest.mark.django_db
def test_the_schema_is_generated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Client().get("/openapi.json")
    monkeypatch.setattr(SchemaGenerator, "get_schema", None)
    for query in ("", "?lang=de", "?version=2"):
        assert Client().get(f"/openapi.json{query}").content == first.content
    assert first["Content-Type"] == "application/vnd.oai.openapi+json"


@pytest.mark.django_db
def test_the_api_page_loads_nothing_from_other_hosts() -> None:
    page = Client().get("/docs").content.decode()

    assert "swagger-ui" in page
    assert re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", page) == []


TAGS: Final = {
    *("alerts", "archives", "atropos", "audit", "batches", "captures", "environments"),
    *("episodes", "fleet", "followers", "fragments", "groups", "lessons", "metrics", "payloads"),
    *(
        "recordings",
        "runs",
        "server",
        "session",
        "tensors",
        "tokenizers",
        "tokens",
        "trainers",
        "weights",
    ),
}
NOT_PLAIN: Final = re.compile(
    r"\b(what|say|says|tell|tells|let|lets|nobody|somebody)\b", re.IGNORECASE
)


@pytest.fixture(scope="module")
def document() -> Any:
    output = io.StringIO()
    call_command("spectacular", "--format", "openapi-json", stdout=output)
    return json.loads(output.getvalue())


def operations(document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_every_operation_has_a_short_unique_summary(document: Any) -> None:
    seen: dict[tuple[str, str], str] = {}
    for label, operation in operations(document):
        summary, [tag] = operation["summary"], operation["tags"]
        assert 0 < len(summary) <= 60, label
        assert not NOT_PLAIN.search(summary), label
        assert tag in TAGS, label
        assert seen.setdefault((tag, summary), label) == label
    assert len(seen) > 200


def test_statuses_follow_from_permissions_parameters_and_bodies(document: Any) -> None:
    show = document["paths"]["/api/v1/runs/{run}"]["get"]["responses"]
    create = document["paths"]["/api/v1/runs"]["post"]["responses"]
    session = document["paths"]["/api/v1/session"]["get"]["responses"]

    assert set(show) == {"200", "400", "401", "403", "404", "503"}
    assert set(create) == {"201", "400", "401", "403", "408", "409", "413", "415", "503"}
    assert set(session) == {"200", "400", "503"}
    for label, operation in operations(document):
        for status, answer in operation["responses"].items():
            assert answer["description"], f"{label} {status}"


def test_errors_have_the_form_of_their_routes(document: Any) -> None:
    missing = document["paths"]["/api/v1/runs/{run}"]["get"]["responses"]["404"]["content"]
    stock = document["paths"]["/atropos/{run}/info"]["get"]["responses"]["404"]["content"]

    assert list(missing) == ["application/problem+json"]
    assert list(stock) == ["application/json"]
    assert stock["application/json"]["schema"]["$ref"].endswith("/Detail")


def test_either_form_of_a_token_is_enough(document: Any) -> None:
    accepted = document["paths"]["/api/v1/runs"]["get"]["security"]

    assert accepted == [{"token": []}, {"tokenAsPassword": []}, {"cookieAuth": []}]


def test_no_body_is_an_untyped_object(document: Any) -> None:
    for label, operation in operations(document):
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for body in bodies:
            for media_type, content in body.get("content", {}).items():
                schema = content["schema"]
                assert schema != {}, f"{label} {media_type}"
                assert schema != {"type": "object", "additionalProperties": {}}, label
                is_json = media_type.endswith("json")
                assert not (is_json and schema.get("format") == "binary"), f"{label} {media_type}"


@pytest.mark.parametrize("path", ["/atropos/not a name/status", "/atropos/x/y/z"])
def test_unknown_atropos_paths_answer_json(path: str) -> None:
    answer = Client().get(path, headers={"Accept": "text/html"})

    assert answer.status_code == 404
    assert answer.json() == {"detail": f"no route matches {path}"}
