"""Operators cordon or replace one worker of a fleet, and read its thread stacks."""

from typing import Any

import msgspec
import pytest
from rest_framework.test import APIClient

from rolldeck.operator_requests import LogLines
from rollouts.control.models import FleetWorker
from rollouts.control.queries.fleets import (
    LOG_REQUEST_LIFETIME,
    control_of,
    fleet_state,
    worker_stacks,
)
from rollouts.control.services.worker_requests import answer_log, request_log
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


def post(verb: str, index: int = 0, **body: Any) -> Any:
    return APIClient().generic(
        "POST",
        f"/api/v1/runs/pole/fleet/workers/{index}/{verb}",
        msgspec.json.encode(body),
        content_type="application/json",
        headers=bearer("admin"),
    )


def cordon(run: Run) -> list[str]:
    return [worker.cordon for worker in fleet_state(run.pk, now=NOON).workers]


def orders(run: Run) -> list[tuple[int, str]]:
    return [(cordon.worker, cordon.reason) for cordon in control_of(run.pk).cordons]


def restarts(run: Run) -> list[tuple[int, str, str]]:
    orders = control_of(run.pk).restarts
    return [(order.worker, order.incarnation, order.reason) for order in orders]


def is_to_restart(run: Run) -> list[bool]:
    return [worker.is_to_restart for worker in fleet_state(run.pk, now=NOON).workers]


def test_a_restart_is_sent_until_another_incarnation_is_reported(run: Run) -> None:
    before = control_of(run.pk).fingerprint

    answer = post("restart", incarnation="a", reason="it drifts")

    assert answer.status_code == 202, answer.content
    assert [worker["is_to_restart"] for worker in answer.json()["workers"]] == [True]
    assert restarts(run) == [(0, "a", "it drifts")]
    assert control_of(run.pk).fingerprint != before
    accept(run, report(run, worker(env_steps=20), sequence=1))
    assert is_to_restart(run) == [True]
    accept(run, report(run, worker(incarnation="b", state="starting"), sequence=2))
    assert is_to_restart(run) == [False]
    assert control_of(run.pk).fingerprint == before


def test_a_cordon_is_requested_then_drains_then_is_applied_then_lifted(run: Run) -> None:
    before = control_of(run.pk).fingerprint

    answer = post("cordon", incarnation="a", reason="its node is hot")

    assert answer.status_code == 202, answer.content
    [shown] = answer.json()["workers"]
    assert (shown["cordon"], shown["cordon_reason"]) == ("requested", "its node is hot")
    assert shown["cordoned_by"]
    assert orders(run) == [(0, "its node is hot")]
    assert control_of(run.pk).fingerprint != before
    accept(run, report(run, worker(state="draining", is_cordoned=True), sequence=1))
    assert cordon(run) == ["draining"]
    accept(run, report(run, worker(state="stopped", is_cordoned=True), sequence=2))
    assert cordon(run) == ["out"]

    assert post("uncordon", reason="it is cold").status_code == 202
    assert cordon(run) == ["lifting"]
    assert orders(run) == []
    assert control_of(run.pk).fingerprint == before
    accept(run, report(run, worker(incarnation="b"), sequence=3))
    assert cordon(run) == [""]


def test_a_repeated_request_keeps_the_first_actor_and_reason(run: Run) -> None:
    for reason in ("hot", "again"):
        assert post("cordon", incarnation="a", reason=reason).status_code == 202
    for reason in ("cold", "again"):
        assert post("uncordon", reason=reason).status_code == 202

    events = RunEvent.objects.filter(kind__contains="cordon").order_by("id")
    assert [(event.kind, event.reason) for event in events] == [
        ("worker_cordon_asked", "hot"),
        ("worker_uncordon_asked", "cold"),
    ]
    assert all(event.actor for event in events)
    for reason in ("it drifts", "again"):
        assert post("restart", incarnation="a", reason=reason).status_code == 202
    [event] = RunEvent.objects.filter(kind="worker_restart_asked")
    assert (event.message, event.reason) == ("requested a replacement of worker 0", "it drifts")
    assert event.actor


@pytest.mark.parametrize("verb", ["cordon", "restart"])
def test_another_incarnation_is_neither_cordoned_nor_replaced(run: Run, verb: str) -> None:
    accept(run, report(run, worker(incarnation="b"), sequence=1))

    answer = post(verb, incarnation="a")

    assert (answer.status_code, answer.json()["code"]) == (409, "worker_not_there")
    assert "worker 0 has the incarnation b now" in answer.json()["detail"]
    assert orders(run) == restarts(run) == []


def test_a_cordon_applies_to_a_worker_started_in_between(run: Run) -> None:
    post("cordon", incarnation="a")

    accept(run, report(run, worker(incarnation="b"), sequence=1))

    assert orders(run) == [(0, "")]
    assert cordon(run) == ["requested"]


def test_a_cordoned_worker_is_not_replaced(run: Run) -> None:
    post("cordon", incarnation="a")

    answer = post("restart", incarnation="a")

    assert (answer.status_code, answer.json()["code"]) == (409, "worker_not_there")
    assert "lift the cordon" in answer.json()["detail"]


def test_a_removed_worker_is_not_cordoned(run: Run) -> None:
    accept(run, report(run, worker(), worker(1, incarnation="c"), sequence=1))
    post("cordon", 1, incarnation="c")

    accept(run, report(run, worker(), sequence=2))

    assert orders(run) == []
    assert FleetWorker.objects.get(index=1).cordoned_at is None


def test_without_a_fleet_no_worker_can_be_cordoned_replaced_or_queried(run: Run) -> None:
    change_status(run, RunVerb.KILL, reason="over")

    for verb in ("cordon", "restart", "stacks"):
        answer = post(verb, incarnation="a")
        assert (answer.status_code, answer.json()["code"]) == (409, "worker_not_there")


@pytest.mark.parametrize("verb", ["cordon", "restart", "stacks"])
def test_invalid_requests_are_refused_with_their_field(run: Run, verb: str) -> None:
    assert post(verb, 7, incarnation="a").status_code == 404
    nameless = post(verb, incarnation="")
    assert nameless.status_code == 400
    assert nameless.json()["errors"][0]["field"] == "incarnation"
    assert post("uncordon", 7).status_code == 404
    assert restarts(run) == []


def test_the_newest_log_line_is_stored_without_control_characters(run: Run) -> None:
    accept(run, report(run, worker(last_log="\x1b[31mred\x00\x07 dead"), sequence=1))

    [shown] = fleet_state(run.pk, now=NOON).workers
    assert shown.last_log == "red\ufffd\ufffd dead"


def stacks(run: Run) -> Any:
    return (
        APIClient().get("/api/v1/runs/pole/fleet/workers/0/stacks", headers=bearer("admin")).json()
    )


def test_stacks_are_requested_and_answered_through_reports(run: Run) -> None:
    assert stacks(run)["state"] == "never"

    assert post("stacks", incarnation="a", reason="it hangs").json()["state"] == "requested"

    [request] = control_of(run.pk).stacks
    assert (request.worker, request.incarnation) == (0, "a")
    lines = LogLines(lines=["Thread one", "  a.py:1 in \x1b[31mred"], node="n", path="pid 7")
    asked_at = stacks(run)["asked_at"]
    answer_log(
        run_id=run.pk,
        request=request.id,  # type: ignore[arg-type] # as a URL gives it
        answer=lines,
        now=msgspec.convert(asked_at, type=type(NOON)),
    )

    stacks_shown = stacks(run)
    assert (stacks_shown["state"], stacks_shown["lines"]) == (
        "answered",
        ["Thread one", "  a.py:1 in red"],
    )
    assert (stacks_shown["node"], stacks_shown["process"]) == ("n", "pid 7")
    assert control_of(run.pk).stacks == []
    [event] = RunEvent.objects.filter(kind="worker_stacks_asked")
    assert event.reason == "it hangs"


def test_unanswered_stack_requests_expire(run: Run) -> None:
    post("stacks", incarnation="a")
    asked_at = msgspec.convert(stacks(run)["asked_at"], type=type(NOON))

    stacks_shown = worker_stacks(run.pk, 0, now=asked_at + LOG_REQUEST_LIFETIME * 2)

    assert stacks_shown.state == "timeout"


def test_log_and_stack_requests_are_separate(run: Run) -> None:
    post("stacks", incarnation="a")

    request_log(run_id=run.pk, worker=0, slot=None, lines=10, now=NOON)

    assert stacks(run)["state"] == "requested"
