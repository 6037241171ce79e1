"""Operators replace one worker of a fleet."""

from typing import Any

import msgspec
import pytest
from rest_framework.test import APIClient

from rollouts.control.queries.fleets import control_of, fleet_state
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunVerb
from tests.factories import bearer
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.report_factories import (
    NOON,
    accept,
    change_status,
    report,
    rolling,
    worker,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    return rolling(FakeCluster())


def restart(index: int = 0, **body: Any) -> Any:
    return APIClient().generic(
        "POST",
        f"/api/v1/runs/pole/fleet/workers/{index}/restart",
        msgspec.json.encode(body),
        content_type="application/json",
        headers=bearer("admin"),
    )


def orders(run: Run) -> list[tuple[int, str, str]]:
    restarts = control_of(run.pk).restarts
    return [(order.worker, order.incarnation, order.reason) for order in restarts]


def is_to_restart(run: Run) -> list[bool]:
    return [worker.is_to_restart for worker in fleet_state(run.pk, now=NOON).workers]


def test_the_command_is_sent_until_another_incarnation_is_reported(run: Run) -> None:
    before = control_of(run.pk).fingerprint

    answer = restart(incarnation="a", reason="it drifts")

    assert answer.status_code == 202, answer.content
    assert [worker["is_to_restart"] for worker in answer.json()["workers"]] == [True]
    assert orders(run) == [(0, "a", "it drifts")]
    assert control_of(run.pk).fingerprint != before
    accept(run, report(run, worker(env_steps=20), sequence=1))
    assert is_to_restart(run) == [True]
    accept(run, report(run, worker(incarnation="b", state="starting"), sequence=2))
    assert is_to_restart(run) == [False]
    assert control_of(run.pk).fingerprint == before


def test_a_repeated_request_keeps_the_first_actor_and_reason(run: Run) -> None:
    restart(incarnation="a", reason="it drifts")
    assert restart(incarnation="a", reason="again").status_code == 202

    [event] = RunEvent.objects.filter(kind="worker_restart_asked")
    assert (event.message, event.reason) == ("requested a replacement of worker 0", "it drifts")
    assert event.actor


def test_a_worker_that_was_already_replaced_is_not_restarted(run: Run) -> None:
    accept(run, report(run, worker(incarnation="b"), sequence=1))

    answer = restart(incarnation="a")

    assert (answer.status_code, answer.json()["code"]) == (409, "worker_not_there")
    assert "worker 0 has the incarnation b now" in answer.json()["detail"]
    assert orders(run) == []


def test_without_a_fleet_no_worker_can_be_replaced(run: Run) -> None:
    change_status(run, RunVerb.KILL, reason="over")

    answer = restart(incarnation="a")

    assert (answer.status_code, answer.json()["code"]) == (409, "worker_not_there")


def test_invalid_requests_are_refused_with_their_field(run: Run) -> None:
    assert restart(7, incarnation="a").status_code == 404
    nameless = restart(incarnation="")
    assert nameless.status_code == 400
    assert nameless.json()["errors"][0]["field"] == "incarnation"
    assert orders(run) == []
