"""The live list of runs sends the heartbeats of idle fleets without the runs."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from rollouts.control.models import Fleet
from runs.live.services import topic_named
from tests.factories import NOON, make_outside_run, make_run

pytestmark = pytest.mark.django_db(transaction=True)

RUNS = 72
MANAGER: dict[str, Any] = {
    "incarnation": "a",
    "actor_name": "manager",
    "launched_at": NOON,
    "heard_at": NOON,
}
BYTES_PER_HEARTBEAT = 80


def report(at_seconds: float) -> None:
    at = NOON + timedelta(seconds=at_seconds)
    Fleet.objects.update(observed_at=at, heard_at=at)


def test_heartbeats_of_idle_fleets_are_sent_without_their_runs() -> None:
    for number in range(RUNS):
        run = make_run(name=f"idle-{number}")
        Fleet.objects.create(run=run, observed="running", **MANAGER)
    make_outside_run(name="outside")
    report(0)
    topic = topic_named("runs")
    first = topic.poll(None)
    assert first is not None
    assert len(msgspec.json.decode(first.parts["active"].text)) == RUNS + 1

    report(1)
    change = topic.poll(None)

    assert change is not None
    assert list(change.parts) == ["heartbeats"]
    assert len(change.parts["heartbeats"].text) < BYTES_PER_HEARTBEAT * RUNS
    heard = msgspec.json.decode(change.parts["heartbeats"].text)
    assert {row["observed_at"] for row in heard} == {"2026-03-01T12:00:01Z"}
    assert len({row["run_id"] for row in heard}) == RUNS
    assert topic.poll(None) is None


def test_fleets_that_are_not_expected_to_report_have_no_heartbeat() -> None:
    fleets: dict[str, dict[str, Any]] = {
        "not launched": {},
        "stopped": MANAGER | {"observed": "stopped"},
    }
    for name, fields in fleets.items():
        Fleet.objects.create(run=make_run(name=name.replace(" ", "-")), **fields)
    ended = make_run(name="ended", status="stopped")
    Fleet.objects.create(run=ended, observed="running", **MANAGER)

    change = topic_named("runs").poll(None)

    assert change is not None
    assert msgspec.json.decode(change.parts["heartbeats"].text) == []
