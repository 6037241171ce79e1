"""A run drains after its planned train steps, and completes."""

from typing import Any

import pytest

from buffer import jobs
from buffer.items.models import Batch
from rollouts.control.services.reconciliation import reconcile
from runs.lifecycle.models import Run
from tests.api.buffer.outside_run import OutsideRun, make_mixed_run
from tests.api.buffer.stock_server import Server
from tests.buffer_factories import group
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.report_factories import NOON

pytestmark = pytest.mark.django_db


@pytest.fixture
def outside() -> OutsideRun:
    """A run of two planned train steps, with batches of four sequences."""
    found = make_mixed_run()
    Run.objects.update(num_steps=2)
    return found


def fill(outside: OutsideRun, *, batches: int) -> None:
    for mark in range(2 * batches):
        outside.push(mark=mark)


def status(outside: OutsideRun) -> str:
    """Return the run's status after a pass of the reconciler."""
    reconcile(run_id=outside.run.pk, cluster=FakeCluster(), platform_url="http://deck", now=NOON)
    return str(Run.objects.get(pk=outside.run.pk).status)


def change(outside: OutsideRun, **settings: Any) -> Any:
    return outside.operator.patch("/api/v1/runs/words", settings, content_type="application/json")


def test_a_run_completes_once_its_last_step_is_acknowledged(outside: OutsideRun) -> None:
    fill(outside, batches=3)
    outside.ack(outside.next())
    before = status(outside)
    last = outside.next()
    while_leased = status(outside)
    again = outside.next()
    outside.ack(again)
    further = outside.next()

    assert (before, while_leased) == ("running", "draining")
    assert again["batch"]["id"] == last["batch"]["id"]
    assert further is None
    assert status(outside) == "completed"
    counts = outside.get("ledger")["groups"]
    assert (counts["accepted"], counts["served"], counts["dropped"]) == (6, 4, {"drained": 2})
    [event] = [
        one for one in outside.get("events")["results"] if one["details"].get("to") == "draining"
    ]
    assert event["reason"] == "all 2 planned train steps are served"
    assert event["actor"] == "platform"


def test_a_returned_last_batch_is_served_again(outside: OutsideRun) -> None:
    fill(outside, batches=2)
    outside.ack(outside.next())
    last = outside.next()
    outside.lapse()

    assert status(outside) == "draining"
    assert outside.next()["batch"]["id"] == last["batch"]["id"]


def test_steps_before_the_run_are_counted(outside: OutsideRun) -> None:
    Run.objects.update(num_steps=10, starting_step=9)
    fill(outside, batches=2)
    outside.ack(outside.next())

    assert outside.next() is None
    assert status(outside) == "completed"


@pytest.mark.parametrize("settings", [{"ends_at_num_steps": False}, {"num_steps": 5}])
def test_a_run_continues_when_its_planned_steps_are_removed_or_raised(
    outside: OutsideRun, settings: dict[str, Any]
) -> None:
    assert change(outside, **settings).status_code == 200
    fill(outside, batches=3)
    for _ in range(3):
        outside.ack(outside.next())

    assert status(outside) == "running"


def test_a_run_completes_when_its_planned_steps_are_lowered_below_its_served_steps(
    outside: OutsideRun,
) -> None:
    assert change(outside, num_steps=5).status_code == 200
    fill(outside, batches=4)
    for _ in range(3):
        outside.ack(outside.next())
    assert change(outside, num_steps=2).status_code == 200

    assert outside.next() is None
    assert status(outside) == "completed"


@pytest.mark.parametrize("number", [0, -1])
def test_a_run_without_planned_steps_continues(outside: OutsideRun, number: int) -> None:
    Run.objects.update(num_steps=number)
    fill(outside, batches=1)
    outside.ack(outside.next())

    assert status(outside) == "running"


def test_zero_planned_steps_are_refused(outside: OutsideRun) -> None:
    refused = change(outside, num_steps=0)

    assert refused.status_code == 400
    assert "num_steps" in refused.content.decode()


def test_a_paused_run_completes_too(outside: OutsideRun) -> None:
    Run.objects.update(status="paused", num_steps=1)
    fill(outside, batches=1)
    outside.ack(outside.next())

    assert status(outside) == "completed"


def stock_run() -> Server:
    """Return a run of one planned step whose stock trainer has received the only batch."""
    server = Server()
    server.register(num_steps=1)
    assert server.batch() is None
    server.register_env()
    for mark in (1, 2):
        assert server.post("/scored_data", group(mark=mark)).status_code == 200
    assert len(server.batch()) == 2
    return server


def test_the_last_batch_of_a_stock_trainer_counts_after_its_lease() -> None:
    stock_run()
    run = Run.objects.get(is_default=True)
    outside = OutsideRun(run)
    Batch.objects.update(delivered_at=run.started_at)
    assert status(outside) == "draining"
    jobs.reclaim_expired_leases()
    assert status(outside) == "draining"
    outside.lapse()

    assert Batch.objects.get().state == "confirmed"
    assert status(outside) == "completed"


def test_an_interrupted_last_batch_is_served_again() -> None:
    server = stock_run()
    Batch.objects.update(delivered_at=None)
    OutsideRun(Run.objects.get(is_default=True)).lapse()

    assert Batch.objects.get().state == "returned"
    assert len(server.batch()) == 2


def test_a_stock_trainer_after_a_completed_run_opens_a_new_one() -> None:
    server = stock_run()
    first = Run.objects.get(is_default=True)
    Run.objects.update(status="completed")
    server.register(num_steps=3)
    second = Run.objects.current().get(is_default=True)

    assert second.pk != first.pk
    assert (second.name, second.num_steps, second.served_steps) == (first.name, 3, 0)
    first.refresh_from_db()
    assert (first.status, first.archived_at is not None) == ("completed", True)
