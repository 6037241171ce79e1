import base64
import json
from datetime import timedelta
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from rest_framework.test import APIClient

from config.errors import server_error
from runs.access.models import ApiToken
from runs.config.rules.run_config import PRESETS
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus, RunVerb
from tests.factories import NOON, bearer, make_run, make_token, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> APIClient:
    client = APIClient()
    client.force_login(make_user(username="ada", role="admin"))
    return client


def fields_of(response: Any) -> list[str]:
    assert response["Content-Type"] == "application/problem+json"
    return [error["field"] for error in response.json()["errors"]]


def test_a_run_is_created_shown_and_listed(operator: APIClient) -> None:
    body = {"name": "alpha", "preset": "cartpole", "config": {"buffer": {"batch_size": 4}}}

    created = operator.post("/api/v1/runs", body, format="json")

    assert created.status_code == 201
    detail = created.json()
    assert (detail["status"], detail["batch_size"], detail["created_by"]) == ("draft", 4, "olga")
    assert detail["config"]["buffer"]["batch_size"] == 4
    assert detail["allowed_verbs"] == ["start", "kill"]
    assert operator.get("/api/v1/runs/alpha").json() == detail
    listed = operator.get("/api/v1/runs?q=alp&status=draft").json()["results"]
    summary = {k: v for k, v in detail.items() if k not in {"config", "inference_server"}}
    assert listed == [summary | {"environment": "gymnasium:CartPole-v1"}]
    assert operator.get("/api/v1/runs?q=nope").json()["results"] == []


def test_a_run_may_be_created_and_started_at_once(operator: APIClient) -> None:
    fleet = operator.post("/api/v1/runs", {"name": "a", "start": True}, format="json")
    outside = operator.post(
        "/api/v1/runs", {"name": "b", "kind": "outside", "start": True}, format="json"
    )

    assert fleet.json()["status"] == "queued"
    assert outside.json()["status"] == "running"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{", "body"),
        (b"[]", "body"),
        (b"{}", "name"),
        ({"name": "a b"}, "name"),
        ({"name": "default"}, "name"),
        ({"name": "a", "nope": 1}, "nope"),
        ({"name": "a", "kind": "cloud"}, "kind"),
        ({"name": "a", "preset": "nope"}, "preset"),
        ({"name": "a", "start": "yes"}, "start"),
        ({"name": "a", "config": {"buffer": {"batch_size": 0}}}, "config.buffer.batch_size"),
        ({"name": "a", "config": {"environment": {"spec": "x:y"}}}, "config.environment.spec"),
        (
            {"name": "a", "config": {"environment": {"spec": "module:os:system"}}},
            "config.environment.spec",
        ),
        (
            {"name": "a", "config": {"environment": {"spec": "gymnasium:os:CartPole-v1"}}},
            "config.environment.spec",
        ),
        ({"name": "a", "config": {"policy": {"kind": "cnn"}}}, "config.policy.kind"),
        (
            {"name": "a", "config": {"policy": {"kind": "gru", "recurrent_units": 0}}},
            "config.policy.recurrent_units",
        ),
        (
            {"name": "a", "config": {"environment": {"kwargs": {"x": "\x00"}}}},
            "config.environment.kwargs.x",
        ),
        ({"name": "a", "runtime_env": {"pip": ["x"]}}, "runtime_env"),
        (
            {"name": "a", "config": {"fleet": {"runtime_env": {"pip": ["x"]}}}},
            "config.fleet.runtime_env",
        ),
        (b'{"name": "a", "config": {"environment": {"kwargs": {"x": NaN}}}}', "body"),
        (b'{"name": "a", "config": {"environment": {"kwargs": {"x": "\xff"}}}}', "body"),
        (b'{"name": "a", "config": {"environment": {"kwargs": {"x": 1e999}}}}', "body"),
        ({"name": "a", "kind": "outside", "config": {"seed": 1}}, "config"),
    ],
    ids=str,
)
def test_a_malformed_run_is_refused_by_field_and_nothing_stored(
    operator: APIClient, body: Any, field: str
) -> None:
    if isinstance(body, bytes):
        response = operator.generic("POST", "/api/v1/runs", body, content_type="application/json")
    else:
        response = operator.post("/api/v1/runs", body, format="json")

    assert response.status_code == 400
    assert response.json()["code"] == "invalid"
    assert fields_of(response) == [field]
    assert not Run.objects.exists()


def test_a_name_that_is_taken_is_a_conflict(operator: APIClient) -> None:
    make_run()

    response = operator.post("/api/v1/runs", {"name": "alpha"}, format="json")

    assert (response.status_code, response.json()["code"]) == (409, "run_exists")


def test_each_verb_has_a_route_and_a_second_start_is_a_conflict(operator: APIClient) -> None:
    make_run(status=RunStatus.DRAFT)

    first = operator.post("/api/v1/runs/alpha/start", {"reason": "go"}, format="json")
    second = operator.post("/api/v1/runs/alpha/start")

    assert (first.status_code, first.json()["status_reason"]) == (200, "go")
    assert (second.status_code, second.json()["code"]) == (409, "move_not_allowed")
    assert "alpha is queued" in second.json()["detail"]
    for verb, status in [("pause", "paused"), ("resume", "running"), ("stop", "draining")]:
        assert operator.post(f"/api/v1/runs/alpha/{verb}").json()["status"] == status
    assert operator.post("/api/v1/runs/alpha/kill").json()["status"] == "stopped"
    kinds = [e["message"] for e in operator.get("/api/v1/runs/alpha/events").json()["results"]]
    assert kinds[0] == "draining → stopped"


def test_a_verb_with_a_malformed_body_changes_no_state(operator: APIClient) -> None:
    run = make_run()

    response = operator.post("/api/v1/runs/alpha/pause", {"reason": 1}, format="json")

    assert fields_of(response) == ["reason"]
    run.refresh_from_db()
    assert run.status == RunStatus.RUNNING


@pytest.mark.parametrize("path", ["", "/events", "/environments", "/trainers", "/weights/current"])
def test_an_unknown_run_is_not_found(operator: APIClient, path: str) -> None:
    response = operator.get(f"/api/v1/runs/nope{path}")

    assert (response.status_code, response.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    "query", ["cursor=x", "cursor=é", "limit=0", "limit=201", "limit=-1", "limit=²"]
)
def test_a_malformed_page_of_events_is_refused_by_parameter(
    operator: APIClient, query: str
) -> None:
    make_run()

    response = operator.get(f"/api/v1/runs/alpha/events?{query}")

    assert response.status_code == 400
    assert fields_of(response) == [query.partition("=")[0]]


def test_events_are_paged_newest_first(operator: APIClient) -> None:
    make_run(status=RunStatus.RUNNING)
    for verb in ("pause", "resume", "pause"):
        operator.post(f"/api/v1/runs/alpha/{verb}")

    first = operator.get("/api/v1/runs/alpha/events?limit=2").json()
    rest = operator.get(f"/api/v1/runs/alpha/events?cursor={first['next']}").json()

    assert [e["message"] for e in first["results"]] == ["running → paused", "paused → running"]
    assert [e["kind"] for e in rest["results"]] == ["status", "created"]
    assert first["results"][0]["actor"] == "user:olga"


def test_lists_of_runs_refuse_an_unknown_status(operator: APIClient) -> None:
    assert fields_of(operator.get("/api/v1/runs?status=dancing")) == ["status"]
    assert fields_of(operator.get("/api/v1/runs?q=%00")) == ["q"]


def test_queries_of_the_run_list_do_not_depend_on_the_number_of_runs(
    operator: APIClient, django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        make_run(name=f"run-{number}")

    with django_assert_max_num_queries(6):
        assert len(operator.get("/api/v1/runs").json()["results"]) == 20


def test_a_trainer_registers_and_is_listed() -> None:
    run = make_run()
    client = APIClient(headers=bearer("trainer", run=run))

    answer = client.post("/api/v1/runs/alpha/trainers", {"name": "ppo"}, format="json")

    assert answer.status_code == 200
    assert answer.json()["epoch"] == 1
    assert answer.json()["policy_step"] == -2
    assert answer.json()["batch_size"] == run.batch_size
    assert answer.json()["config"] == run.config
    listed = client.get("/api/v1/runs/alpha/trainers").json()["results"]
    assert [(t["uuid"], t["name"]) for t in listed] == [(answer.json()["uuid"], "ppo")]


def test_an_ended_run_refuses_registrations() -> None:
    make_run(status=RunStatus.STOPPED)

    answer = APIClient(headers=bearer("trainer")).post("/api/v1/runs/alpha/trainers")

    assert (answer.status_code, answer.json()["code"]) == (409, "run_over")


def test_a_run_with_a_registered_environment_is_created_without_importing_it(
    operator: APIClient, settings: Any
) -> None:
    settings.ROLLDECK_ENVIRONMENTS = ["module:my_lab.nowhere:Maze"]
    config = {"environment": {"spec": "module:my_lab.nowhere:Maze"}, "policy": {"kind": "gru"}}

    answer = operator.post("/api/v1/runs", {"name": "mazes", "config": config}, format="json")

    assert answer.status_code == 201
    assert Run.objects.get(name="mazes").config["policy"]["recurrent_units"] == 128


def test_the_config_schema_and_the_presets_belong_together(operator: APIClient) -> None:
    answer = operator.get("/api/v1/run-config-schema").json()

    assert "$defs" in answer["schema"]
    assert [preset["name"] for preset in answer["presets"]] == list(PRESETS)
    for preset in answer["presets"]:
        body = {"name": f"with-{preset['name']}", "config": preset["config"]}
        assert operator.post("/api/v1/runs", body, format="json").status_code == 201


def test_the_depth_and_the_values_of_a_body_are_limited(operator: APIClient, settings: Any) -> None:
    settings.ROLLDECK_MAX_JSON_DEPTH = 4
    deep = operator.post("/api/v1/runs", {"name": "a", "config": {"x": [[[1]]]}}, format="json")
    settings.ROLLDECK_MAX_JSON_VALUES = 10
    long = operator.post("/api/v1/runs", {"name": "a", "config": {"x": [1] * 10}}, format="json")

    assert deep.status_code == long.status_code == 400
    (error,) = deep.json()["errors"]
    assert (error["field"], "(max_json_depth)" in error["message"]) == ("config", True)
    assert "(max_json_values)" in long.json()["detail"]


def test_a_token_is_created_shown_once_used_and_revoked(admin: APIClient) -> None:
    make_run()
    body = {"name": "t", "scopes": ["trainer"], "run": "alpha", "expires_in_seconds": 60}

    created = admin.post("/api/v1/tokens", body, format="json")

    assert created.status_code == 201
    assert created["Cache-Control"] == "no-store"
    text = created.json()["token"]
    machine = APIClient(headers={"Authorization": f"Bearer {text}"})
    assert machine.get("/api/v1/runs/alpha").status_code == 200
    listed = admin.get("/api/v1/tokens")
    assert text not in listed.content.decode()
    assert listed.json()["results"][0]["created_by"] == "ada"

    path = f"/api/v1/tokens/{created.json()['id']}"
    wrong = admin.delete(f"{path}?reason=%00")
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (400, "reason")
    assert admin.delete(f"{path}?reason=it+leaked").status_code == 204
    assert RunEvent.objects.get(kind="token_revoked").reason == "it leaked"

    assert machine.get("/api/v1/runs/alpha").status_code == 401
    assert admin.delete("/api/v1/tokens/999999").status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"scopes": ["env"]}, "name"),
        ({"name": "", "scopes": ["env"]}, "name"),
        ({"name": "t", "scopes": []}, "scopes"),
        ({"name": "t", "scopes": ["root"]}, "scopes[0]"),
        ({"name": "t", "scopes": ["env"], "expires_in_seconds": 0}, "expires_in_seconds"),
        ({"name": "t", "scopes": ["env"], "run": "a b"}, "run"),
    ],
    ids=str,
)
def test_a_malformed_token_is_refused_by_field(
    admin: APIClient, body: dict[str, Any], field: str
) -> None:
    response = admin.post("/api/v1/tokens", body, format="json")

    assert response.status_code == 400
    assert fields_of(response) == [field]
    assert not ApiToken.objects.exists()


def test_a_token_for_an_unknown_run_is_not_found(admin: APIClient) -> None:
    body = {"name": "t", "scopes": ["env"], "run": "nope"}

    assert admin.post("/api/v1/tokens", body, format="json").status_code == 404


@pytest.mark.parametrize("header", ["Bearer nope", "Basic %%", "Basic cnVuOm5vcGU="])
def test_wrong_credentials_are_answered_401_with_a_challenge(header: str) -> None:
    response = APIClient(headers={"Authorization": header}).get("/api/v1/limits")

    assert (response.status_code, response.json()["code"]) == (401, "not_authenticated")
    assert response["WWW-Authenticate"].startswith("Bearer")


def test_a_token_works_as_basic_password_too() -> None:
    _, text = make_token("env")
    basic = base64.b64encode(f"run:{text}".encode()).decode()

    assert (
        APIClient(headers={"Authorization": f"Basic {basic}"}).get("/api/v1/limits").status_code
        == 200
    )


def test_an_expired_token_is_refused() -> None:
    _, text = make_token("env", expires_at=NOON + timedelta(seconds=1))

    response = APIClient(headers={"Authorization": f"Bearer {text}"}).get("/api/v1/limits")

    assert response.status_code == 401


def test_an_unsupported_method_is_a_problem_too(operator: APIClient) -> None:
    response = operator.delete("/api/v1/runs")

    assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed")


@pytest.mark.parametrize("verb", list(RunVerb))
def test_verbs_refuse_get(operator: APIClient, verb: RunVerb) -> None:
    make_run()

    assert operator.get(f"/api/v1/runs/alpha/{verb}").status_code == 405


def test_an_unknown_path_is_a_problem_below_api_and_a_page_elsewhere(
    operator: APIClient,
) -> None:
    below = operator.get("/api/v1/nothing")

    assert (below.status_code, below.json()["code"]) == (404, "not_found")
    assert operator.get("/nothing/at/all")["Content-Type"].startswith("text/html")


def test_an_unexpected_error_is_a_problem_below_api() -> None:
    answer = server_error(RequestFactory().get("/api/v1/runs"))

    assert isinstance(answer, HttpResponse)
    assert (answer.status_code, json.loads(answer.content)["code"]) == (500, "internal")
    assert server_error(RequestFactory().get("/admin/"))["Content-Type"].startswith("text/html")
