"""HTTP API of fleets."""

import json
import threading
import time
from typing import Any

import msgspec
import pytest
from django.db import connection
from rest_framework.test import APIClient

from rollouts.control.models import EpisodeWindow, FleetWorker
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunVerb
from tests.factories import bearer, make_run, make_user
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.report_factories import (
    change_status,
    fleet,
    launched,
    reconcile_run,
    report,
    window,
    worker,
)
from tests.waiting import stays

pytestmark = pytest.mark.django_db


def call(method: str, path: str, headers: dict[str, str] | None = None, body: Any = None) -> Any:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body) if body else b""
    return APIClient().generic(
        method, f"/api/v1/runs/{path}", raw, content_type="application/json", headers=headers
    )


@pytest.fixture
def run() -> Run:
    return launched(FakeCluster())


@pytest.fixture
def manager(run: Run) -> dict[str, str]:
    """Headers of the run's own manager."""
    return bearer("worker", run=run)


def sent(run: Run, **fields: Any) -> dict[str, Any]:
    given = report(run, worker(env_steps=10), episodes=[window(1.0, 3.0)], **fields)
    return msgspec.to_builtins(given)


def test_a_report_is_answered_with_the_desired_state(run: Run, manager: dict[str, str]) -> None:
    answer = call("POST", "pole/fleet/report", manager, sent(run))

    assert answer.status_code == 200, answer.content
    control = answer.json()
    assert control["desired"] == "running"
    assert control["policy_step"] == -2
    assert FleetWorker.objects.get().env_steps == 10


def test_pages_read_fleet_and_episodes(run: Run, manager: dict[str, str]) -> None:
    call("POST", "pole/fleet/report", manager, sent(run))
    make_user(username="bob")
    page = APIClient()
    page.login(username="bob", password="bob")

    state = page.get("/api/v1/runs/pole/fleet").json()
    episodes = page.get("/api/v1/runs/pole/episodes").json()["results"]

    assert (state["desired"], state["observed"]) == ("running", "running")
    assert state["workers"][0]["slots"][0]["state"] == "stepping"
    [row] = episodes
    assert (row["count"], row["return_mean"], row["recent_return_mean"]) == (2, 2.0, 2.0)
    later = page.get(f"/api/v1/runs/pole/episodes?after_id={row['id']}").json()
    assert later == {"results": [], "next": None}


def test_a_report_of_a_replaced_manager_is_refused(run: Run, manager: dict[str, str]) -> None:
    answer = call("POST", "pole/fleet/report", manager, sent(run, incarnation="0-dead"))

    assert (answer.status_code, answer.json()["code"]) == (409, "stale_incarnation")


WRONG = {
    "sequence below zero": ({"sequence": -1}, "sequence"),
    "unknown state": ({"state": "sleepy"}, "state"),
    "no workers": ({"workers": None}, "workers"),
    "a return that is text": ({"episodes.0.return_mean": "high"}, "episodes[0].return_mean"),
    "a return beyond floats": ({"episodes.0.return_max": 10**400}, "episodes[0].return_max"),
    "a count beyond columns": ({"episodes.0.length_max": 2**40}, "episodes[0].length_max"),
    "a window of no episodes": ({"episodes.0.count": 0}, "episodes[0].count"),
    "a negative slot": ({"workers.0.slots.0.slot": -1}, "workers[0].slots[0].slot"),
    "a NUL in a text": ({"reason": "a\x00b"}, "reason"),
}


@pytest.mark.parametrize(("change", "field"), WRONG.values(), ids=WRONG.keys())
def test_an_invalid_report_is_refused_with_its_field_and_not_stored(
    run: Run, manager: dict[str, str], change: dict[str, Any], field: str
) -> None:
    body = sent(run)
    for path, value in change.items():
        *parents, last = path.split(".")
        inner: Any = body
        for key in parents:
            inner = inner[int(key)] if key.isdigit() else inner[key]
        inner[last] = value

    answer = call("POST", "pole/fleet/report", manager, json.dumps(body).encode())

    assert answer.status_code == 400, answer.content
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert not FleetWorker.objects.exists()
    assert not EpisodeWindow.objects.exists()


@pytest.mark.parametrize("raw", [b"{", b"[]", b'{"incarnation": NaN}', b"\xff\xfe", b"[" * 100_000])
def test_a_malformed_report_is_refused(run: Run, manager: dict[str, str], raw: bytes) -> None:
    assert call("POST", "pole/fleet/report", manager, raw).status_code == 400


def test_only_a_token_of_the_run_may_report_for_its_fleet(run: Run) -> None:
    other = make_run(name="other")
    strangers = [None, bearer("trainer", run=run), bearer("worker", run=other), bearer("env")]

    codes = [
        (
            call("POST", "pole/fleet/report", headers, sent(run)).status_code,
            call("GET", "pole/fleet/control", headers).status_code,
        )
        for headers in strangers
    ]

    assert codes == [(401, 401), (403, 403), (403, 403), (403, 403)]
    assert not FleetWorker.objects.exists()


def test_an_unknown_run_is_not_found() -> None:
    headers = bearer("admin")

    for path in ("fleet", "fleet/control", "episodes", "metrics"):
        assert call("GET", f"nowhere/{path}", headers).status_code == 404


def test_control_answers_at_once_when_the_fleet_is_out_of_date(
    run: Run, manager: dict[str, str]
) -> None:
    began = time.monotonic()

    answer = call("GET", "pole/fleet/control?after=x&wait=30", manager)

    assert answer.status_code == 200
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("query", ["wait=31", "wait=-1", "wait=soon", "wait=nan"])
def test_control_refuses_a_wait_above_the_limit(
    run: Run, manager: dict[str, str], query: str
) -> None:
    answer = call("GET", f"pole/fleet/control?{query}", manager)

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "wait"


@pytest.mark.django_db(transaction=True)
def test_a_waiting_fleet_receives_a_pause_well_within_a_second(
    run: Run, manager: dict[str, str]
) -> None:
    commands = [(RunVerb.PAUSE, "paused"), (RunVerb.RESUME, "running"), (RunVerb.PAUSE, "paused")]

    # Other processes may have used the machine too.
    assert min(seconds_until_received(run, manager, *command) for command in commands) < 0.5


def seconds_until_received(
    run: Run, manager: dict[str, str], verb: RunVerb, expected: str
) -> float:
    """Request an operation while a fleet waits; return when the fleet received it."""
    known = call("GET", "pole/fleet/control", manager).json()["fingerprint"]
    received: list[tuple[float, str]] = []

    def wait() -> None:
        answer = call("GET", f"pole/fleet/control?after={known}&wait=20", manager)
        received.append((time.monotonic(), answer.json()["desired"]))
        connection.close()

    waiting = threading.Thread(target=wait)
    waiting.start()
    stays(lambda: received == [], 0.2)
    asked_at = time.monotonic()
    change_status(run, verb)
    waiting.join(60)

    [(at, desired)] = received
    assert desired == expected
    return at - asked_at


@pytest.mark.django_db(transaction=True)
def test_a_wait_ends_with_the_same_commands_when_nothing_changes(
    run: Run, manager: dict[str, str]
) -> None:
    known = call("GET", "pole/fleet/control", manager).json()["fingerprint"]
    began = time.monotonic()

    answer = call("GET", f"pole/fleet/control?after={known}&wait=1", manager)

    assert answer.json()["fingerprint"] == known
    assert 0.9 < time.monotonic() - began < 15


def test_the_token_of_an_ended_manager_is_revoked(run: Run) -> None:
    cluster = FakeCluster()
    other = launched(cluster, "other")
    token = cluster.orders[0].token
    change_status(other, RunVerb.KILL)
    reconcile_run(other, cluster)

    answer = call("GET", "other/fleet/control", {"Authorization": f"Bearer {token}"})

    assert answer.status_code == 401
    assert fleet(other).incarnation == ""
