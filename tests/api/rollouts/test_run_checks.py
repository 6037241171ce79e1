"""Checks of a run before launch store nothing."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from rollouts.control.services.ray_cluster import RayCluster
from runs.lifecycle.models import Run
from tests.factories import make_run

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("gateway")]


def check(client: APIClient, **body: Any) -> dict[str, Any]:
    response = client.post("/api/v1/run-checks", body, format="json")
    assert response.status_code == 200, response.content
    answer: dict[str, Any] = response.json()
    return answer


def finding(answer: dict[str, Any], field: str) -> dict[str, Any]:
    (finding,) = [row for row in answer["findings"] if row["field"] == field]
    return dict(finding)


def test_a_preset_without_a_cluster_has_warnings(operator: APIClient) -> None:
    answer = check(operator, name="alpha", preset="cartpole")

    assert answer["result"] == "risky"
    assert answer["config"]["buffer"]["batch_size"] == 16
    assert "float32 [4]" in finding(answer, "environment.spec")["message"]
    assert finding(answer, "fleet.num_workers")["level"] == "warning"
    assert finding(answer, "num_steps")["subject"] == "Disk"
    assert not Run.objects.exists()


def test_an_environment_that_cannot_be_created_is_an_error(operator: APIClient) -> None:
    config = {"environment": {"kwargs": {"nonsense": 1}}}

    answer = check(operator, preset="cartpole", config=config)

    assert answer["result"] == "refused"
    assert "nonsense" in finding(answer, "environment.spec")["message"]


def test_a_batch_size_that_groups_do_not_divide_is_an_error(operator: APIClient) -> None:
    config = {"buffer": {"batch_size": 100}, "language": {"group_size": 8}}

    answer = check(operator, preset="curriculum", config=config)

    assert answer["result"] == "refused"
    assert "Use 96 or 104" in finding(answer, "buffer.batch_size")["message"]


def test_every_field_that_the_server_would_refuse_has_a_finding(operator: APIClient) -> None:
    config = {"environment": {"spec": "x:y"}, "fleet": {"num_workers": 0}, "seed": -1}

    answer = check(operator, name="a b", config=config)

    assert [row["field"] for row in answer["findings"]] == [
        "name",
        "fleet.num_workers",
        "seed",
        "environment.spec",
    ]
    assert {row["level"] for row in answer["findings"]} == {"error"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"config": {"buffer": {"batch_size": 0}}}, "buffer.batch_size"),
        ({"config": {"environment": {"spec": "gymnasium:Nope-v0"}}}, "environment.spec"),
        ({"config": {"nope": 1}}, "nope"),
        ({"preset": "nope"}, "preset"),
        ({"name": "a b", "config": {"nope": 1}}, "name"),
        ({"name": "taken", "config": {"nope": 1}}, "name"),
    ],
)
def test_refused_values_are_findings_at_their_field(
    operator: APIClient, body: dict[str, Any], field: str
) -> None:
    make_run(name="taken")

    answer = check(operator, **body)

    assert answer["result"] == "refused"
    assert finding(answer, field)["level"] == "error"
    assert finding(answer, field)["remedy"]


def test_a_check_of_fields_only_creates_no_environment(
    operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RayCluster, "probe", lambda *_, **__: pytest.fail("probed"))
    config = {"fleet": {"num_workers": 0}}

    assert check(operator, preset="cartpole", fields_only=True)["result"] == "ready"
    answer = check(operator, preset="cartpole", config=config, fields_only=True)

    assert [row["field"] for row in answer["findings"]] == ["fleet.num_workers"]


def test_a_check_suggests_a_free_name(operator: APIClient) -> None:
    for name in ("cartpole-2", "cartpole-10", "cartpole-x", "cartpole"):
        make_run(name=name)

    def suggested(**body: Any) -> str:
        return str(check(operator, fields_only=True, **body)["suggested_name"])

    assert suggested(preset="cartpole") == "cartpole-11"
    assert suggested(name="cartpole-2") == "cartpole-11"
    assert suggested(preset="pendulum") == "pendulum-1"
    assert suggested() == "run-1"
    assert suggested(name="né w!/") == "nw-1"


def test_the_web_process_checks_no_environment_without_a_cluster(
    operator: APIClient, settings: Any
) -> None:
    settings.RAY_ADDRESS = "127.0.0.1:1"

    answer = check(operator, preset="cartpole")
    probed = operator.post(
        "/api/v1/environments/probes", {"spec": "gymnasium:CartPole-v1"}, format="json"
    )

    assert answer["result"] == "risky"
    assert "was not constructed" in finding(answer, "environment.spec")["message"]
    assert "no Ray cluster at 127.0.0.1:1" in finding(answer, "fleet.num_workers")["message"]
    assert (probed.status_code, probed.json()["code"]) == (503, "cluster_unreachable")
    assert "no Ray cluster at 127.0.0.1:1" in probed.json()["detail"]


def test_a_gateway_with_another_token_is_not_used(operator: APIClient, settings: Any) -> None:
    settings.RAY_AUTH_TOKEN = "another"

    answer = check(operator, preset="cartpole")

    assert (
        "the token is not that of this cluster" in finding(answer, "fleet.num_workers")["message"]
    )
