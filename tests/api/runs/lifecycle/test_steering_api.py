"""Changes of a run are recorded with actor, time, reason and request id."""

from datetime import UTC, datetime
from typing import Any

import pytest
from rest_framework.test import APIClient

from runs.events.models import RunEvent
from runs.lifecycle.models import Environment, PolicyVersion, Run
from tests.factories import NOON, make_run

pytestmark = pytest.mark.django_db


def add_environment(run: Run, **fields: Any) -> Environment:
    plain: dict[str, Any] = {
        "env_id": 0,
        "desired_name": "math",
        "wandb_name": "math_0",
        "registered_at": NOON,
        "last_seen_at": datetime.now(UTC),
    }
    return Environment.objects.create(run=run, **(plain | fields))


def test_an_event_names_the_request_that_caused_it(operator: APIClient) -> None:
    make_run()

    answer = operator.post(
        "/api/v1/runs/alpha/pause",
        {"reason": "lunch"},
        format="json",
        headers={"X-Request-ID": "from-a-proxy-1"},
    )
    again = operator.post("/api/v1/runs/alpha/resume", format="json")

    assert answer["X-Request-ID"] == "from-a-proxy-1"
    resumed, paused = operator.get("/api/v1/runs/alpha/events?kinds=status").json()["results"]
    assert (paused["request_id"], paused["reason"]) == ("from-a-proxy-1", "lunch")
    assert paused["details"] == {"from": "running", "to": "paused", "verb": "pause"}
    assert resumed["request_id"] == again["X-Request-ID"] != ""


def test_an_invalid_request_id_is_replaced(operator: APIClient) -> None:
    answer = operator.get("/api/v1/runs", headers={"X-Request-ID": "a b\tc; drop"})

    assert len(answer["X-Request-ID"]) == 32


def test_events_are_read_by_kind(operator: APIClient) -> None:
    make_run()
    operator.patch("/api/v1/runs/alpha", {"max_staleness": 4}, format="json")

    kinds = [
        event["kind"]
        for event in operator.get(
            "/api/v1/runs/alpha/events?kinds=settings_changed,created"
        ).json()["results"]
    ]

    assert kinds == ["settings_changed", "created"]


def test_an_environments_weight_is_changed_with_a_reason(operator: APIClient) -> None:
    add_environment(make_run(kind="outside"))
    change = {"weight": 2.5, "min_batch_allocation": 0.25, "reason": "it learns"}

    first = operator.patch("/api/v1/runs/alpha/environments/0", change, format="json")
    again = operator.patch("/api/v1/runs/alpha/environments/0", change, format="json")

    assert (first.status_code, first.json()["weight"]) == (200, 2.5)
    assert again.json() == first.json()
    event = RunEvent.objects.get(kind="environment_changed")
    assert (event.actor, event.reason) == ("user:olga", "it learns")
    assert event.details["weight"] == {"before": 1.0, "after": 2.5}


@pytest.mark.parametrize(
    ("body", "field"),
    [({"weight": -1}, "weight"), ({"weight": "x"}, "weight"), ({"group_size": 2}, "group_size")],
)
def test_an_invalid_weight_is_refused(
    operator: APIClient, body: dict[str, Any], field: str
) -> None:
    add_environment(make_run(kind="outside"))

    answer = operator.patch("/api/v1/runs/alpha/environments/0", body, format="json")

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)
    assert Environment.objects.get().weight == 1.0


def test_an_environment_is_disconnected_with_a_reason_and_can_reconnect(
    operator: APIClient,
) -> None:
    add_environment(make_run(kind="outside"))
    change = {"connected": False, "reason": "its machine is gone"}

    disconnected = operator.patch("/api/v1/runs/alpha/environments/0", change, format="json")
    back = operator.patch("/api/v1/runs/alpha/environments/0", {"connected": True}, format="json")

    assert (disconnected.json()["connected"], back.json()["connected"]) == (False, True)
    event = RunEvent.objects.filter(kind="environment_changed").order_by("pk")[0]
    assert (event.actor, event.reason) == ("user:olga", "its machine is gone")
    assert event.message.endswith(": connected True → False")


def test_an_unknown_environment_is_not_found(operator: APIClient) -> None:
    make_run(kind="outside")

    answer = operator.patch("/api/v1/runs/alpha/environments/7", {"weight": 1}, format="json")

    assert answer.status_code == 404


def test_a_reset_archives_the_run_and_starts_an_empty_one(operator: APIClient) -> None:
    run = make_run(kind="outside", epoch=3)

    unsaid = operator.post("/api/v1/runs/alpha/reset", {}, format="json")
    answer = operator.post("/api/v1/runs/alpha/reset", {"reason": "new tokenizer"}, format="json")

    assert (unsaid.status_code, unsaid.json()["errors"][0]["field"]) == (400, "reason")
    assert (answer.status_code, answer.json()["epoch"]) == (200, 4)
    assert answer.json()["id"] != run.pk
    run.refresh_from_db()
    assert run.archived_at is not None
    archived = RunEvent.objects.get(run=run, kind="archived")
    assert (archived.actor, archived.reason) == ("user:olga", "new tokenizer")


def test_a_fleet_run_cannot_be_reset(operator: APIClient) -> None:
    make_run()

    answer = operator.post("/api/v1/runs/alpha/reset", {"reason": "why not"}, format="json")

    assert answer.status_code == 404


def test_policy_versions_are_listed_page_by_page(operator: APIClient) -> None:
    run = make_run(epoch=1)
    for step in range(3):
        PolicyVersion.objects.create(
            run=run, epoch=1, step=step, manifest={}, sha256="", size_bytes=9, published_at=NOON
        )

    page = operator.get("/api/v1/runs/alpha/weights?limit=2").json()
    rest = operator.get(f"/api/v1/runs/alpha/weights?cursor={page['next']}").json()

    rows = [*page["results"], *rest["results"]]
    assert [row["step"] for row in rows] == [2, 1, 0]
    assert (rows[0]["has_file"], rows[0]["trainer"]) == (False, None)
    only = operator.get(f"/api/v1/runs/alpha/weights?id={rows[1]['id']}").json()
    assert [row["step"] for row in only["results"]] == [1]
