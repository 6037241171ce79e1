"""Each incarnation of a worker is a row with its machine and the reason of its end."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from rolldeck.wire import FleetEvent, WorkerEnding
from rollouts.control.models import WorkerAttempt
from rollouts.control.queries import fleets as fleet_queries
from rollouts.control.schemas import AttemptRow
from rollouts.control.services import reports
from rollouts.control.services.reconciliation import begin_launch, record_manager_ended
from runs.lifecycle.models import Run
from tests.factories import bearer
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.report_factories import (
    NOON,
    URL,
    accept,
    fleet,
    later,
    launched,
    report,
    worker,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    return launched(FakeCluster())


def lost(incarnation: str, **fields: Any) -> FleetEvent:
    ending = WorkerEnding(index=0, incarnation=incarnation, reason="its actor is gone", **fields)
    return FleetEvent(kind="worker_respawned", message="Worker 0 is lost", ending=ending)


def attempts_of(run: Run, worker: int | None = None) -> list[AttemptRow]:
    return fleet_queries.attempts(run.pk, worker=worker, before=None, limit=100)


def test_a_live_worker_is_an_open_attempt_with_its_last_report(run: Run) -> None:
    accept(run, report(run, worker(state="starting")))
    accept(run, report(run, worker(node="n1", pid=7, env_steps=90), sequence=1), now=later(1))

    [row] = attempts_of(run)
    assert (row.worker, row.incarnation, row.started_at, row.ended_at) == (0, "a", NOON, None)
    assert (row.node, row.pid, row.env_steps) == ("n1", 7, 90)


def test_a_dead_worker_has_node_reason_and_lost_steps(run: Run) -> None:
    accept(run, report(run, worker(env_steps=90)))
    event = lost("a", node="n1", pid=7, env_steps=95, lost_steps=12, unsent_fragments=2)
    respawning = worker(state="respawning", pid=None)
    accept(run, report(run, respawning, sequence=1, events=[event]), now=later(5))
    accept(run, report(run, worker(incarnation="b"), sequence=2), now=later(6))

    new, old = attempts_of(run)
    assert (new.incarnation, new.started_at, new.ended_at) == ("b", later(6), None)
    assert (old.ended_at, old.reason) == (later(5), "its actor is gone")
    assert (old.node, old.pid, old.env_steps) == ("n1", 7, 95)
    assert (old.lost_steps, old.unsent_fragments) == (12, 2)


def test_a_worker_that_died_before_its_first_report_is_a_row_too(run: Run) -> None:
    accept(run, report(run, worker(incarnation="c"), events=[lost("a"), lost("b")]))

    assert sorted((row.incarnation, row.ended_at) for row in attempts_of(run)) == sorted(
        [("c", None), ("a", NOON), ("b", NOON)], key=str
    )


def test_a_repeated_report_ends_no_attempt_twice(run: Run) -> None:
    given = report(run, worker(incarnation="b"), events=[lost("a")])
    accept(run, given)
    accept(run, given, now=later(1))

    assert {row.incarnation: row.ended_at for row in attempts_of(run)} == {"b": None, "a": NOON}
    assert WorkerAttempt.objects.count() == 2


def test_a_worker_without_a_process_has_no_attempt(run: Run) -> None:
    accept(run, report(run, worker(incarnation="none", state="starting")))

    assert attempts_of(run) == []


def test_attempts_end_with_their_manager(run: Run) -> None:
    accept(run, report(run, worker(node="n1", pid=7, env_steps=90, fragments_sent=4)))
    begin_launch(run_id=run.pk, reason="it was silent", platform_url=URL, now=later(9))
    accept(run, report(run, worker(incarnation="b")), now=later(10))
    record_manager_ended(
        run_id=run.pk,
        incarnation=fleet(run).incarnation,
        reason="the run is stopped",
        now=later(20),
    )

    new, old = attempts_of(run)
    assert (old.ended_at, old.reason) == (later(9), "a new manager was launched: it was silent")
    assert (old.node, old.pid, old.env_steps, old.fragments_sent) == ("n1", 7, 90, 4)
    assert (new.ended_at, new.reason) == (later(20), "the run is stopped")


def test_only_the_newest_and_the_open_attempts_are_kept(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "ATTEMPTS_KEPT", 3)
    accept(run, report(run, worker(1, incarnation="lives"), worker(0, incarnation="0")))
    for number in range(6):
        successor = worker(0, incarnation=str(number + 1))
        given = report(
            run,
            worker(1, incarnation="lives"),
            successor,
            sequence=number + 1,
            events=[lost(str(number))],
        )
        accept(run, given)

    assert [row.incarnation for row in attempts_of(run)] == ["6", "5", "4", "3", "lives"]


def test_the_api_lists_attempts_of_one_worker_newest_first(run: Run) -> None:
    accept(run, report(run, worker(0), worker(1, incarnation="x")))
    accept(run, report(run, worker(0, incarnation="b"), sequence=1, events=[lost("a")]))
    client = APIClient(headers=bearer("read"))

    answer = client.get("/api/v1/runs/pole/fleet/attempts?worker=0")
    wrong = client.get("/api/v1/runs/pole/fleet/attempts?limit=0")

    assert [row["incarnation"] for row in answer.json()["results"]] == ["b", "a"]
    assert wrong.status_code == 400
