"""Users read the logs of a fleet through the platform."""

import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rolldeck.operator_requests import LogLines
from rollouts.control.models import FleetWorker, LogRequest
from rollouts.control.queries.fleets import fleet_log
from rollouts.control.services.reconciliation import record_manager_ended
from rollouts.control.services.worker_requests import (
    LogNotRequested,
    NoSuchLog,
    answer_log,
    request_log,
)
from rollouts.fleet.manager.manager import LocalFleet
from runs.lifecycle.models import Run
from tests.factories import make_token
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.local_fleets import Platform, local_fleet, slots_run
from tests.integration.rollouts.report_factories import (
    NOON,
    accept,
    draft,
    later,
    launched,
    report,
    worker,
)
from tests.live_server import serving
from tests.waiting import within

REQUEST = uuid.UUID(int=7)


@pytest.fixture
def run(db: None) -> Run:
    run = launched(FakeCluster())
    accept(run, report(run, worker()))
    return run


def request_lines(run: Run, *, lines: int = 10, seconds: float = 0, **what: Any) -> LogRequest:
    where = {"worker": 0, "slot": None, **what}
    return request_log(run_id=run.pk, lines=lines, now=later(seconds), **where)


def answer(run: Run, request: LogRequest, *lines: str, seconds: float = 1) -> None:
    answer_log(
        run_id=run.pk,
        request=request.request,
        answer=LogLines(lines=list(lines), node="n1", path="/logs/w0.log"),
        now=later(seconds),
    )


def test_several_readers_share_a_request_and_its_answer(run: Run) -> None:
    first, second = request_lines(run), request_lines(run, seconds=2)
    answer(run, first, "hello", seconds=3)

    log = fleet_log(second.pk, since=second.asked_at, now=later(3))
    assert first.request == second.request
    assert (log.state, log.lines, log.node, log.path) == ("read", ["hello"], "n1", "/logs/w0.log")


def test_a_request_for_more_lines_replaces_the_old_one_whose_answer_is_refused(run: Run) -> None:
    first = request_lines(run, lines=10)
    second = request_lines(run, lines=500, seconds=1)

    assert first.request != second.request
    with pytest.raises(LogNotRequested):
        answer(run, first, "too late")


def test_an_answer_counts_once(run: Run) -> None:
    request = request_lines(run)
    answer(run, request, "hello")

    with pytest.raises(LogNotRequested):
        answer(run, request, "again")
    assert LogRequest.objects.get().content == ["hello"]


def test_an_answer_to_another_run_is_refused(run: Run) -> None:
    request, other = request_lines(run), draft("other")

    with pytest.raises(LogNotRequested):
        answer(other, request, "hello")


def test_until_the_fleet_answers_the_last_reading_is_shown_with_its_time(run: Run) -> None:
    answer(run, request_lines(run), "yesterday")
    request = request_lines(run, seconds=60)

    log = fleet_log(request.pk, since=request.asked_at, now=later(61))
    assert (log.state, log.lines, log.read_at) == ("waiting", ["yesterday"], later(1))
    assert "last report came 61 s ago" in log.note


def test_a_log_request_without_a_manager_does_not_wait(run: Run) -> None:
    request = request_lines(run)
    record_manager_ended(
        run_id=run.pk, incarnation=run.fleet.incarnation, reason="the run is over", now=later(1)
    )

    assert fleet_log(request.pk, since=NOON, now=later(2)).state == "silent"


@pytest.mark.parametrize("what", [{"worker": 3}, {"worker": 0, "slot": 9}])
def test_an_invalid_log_is_not_requested(run: Run, what: dict[str, Any]) -> None:
    with pytest.raises(NoSuchLog):
        request_lines(run, **what)
    assert not LogRequest.objects.exists()


def test_control_characters_of_fleet_logs_are_removed(run: Run) -> None:
    answer(run, request_lines(run), "\x1b[31mred\x00", "x" * 2100)

    red, long = LogRequest.objects.get().content
    assert red == "red\ufffd"
    assert long.endswith("100 characters left out")


@pytest.fixture
def platform(transactional_db: None) -> Iterator[Platform]:
    with serving() as url, Platform(url) as platform:
        yield platform


@pytest.fixture
def start_fleet(platform: Platform, tmp_path: Path) -> Callable[[], LocalFleet]:
    def start() -> LocalFleet:
        cluster = FakeCluster()
        launched(cluster)
        return local_fleet(platform, cluster.orders[-1], tmp_path)

    return start


def test_logs_of_live_and_dead_workers_are_read_within_seconds(
    platform: Platform, start_fleet: Callable[[], LocalFleet]
) -> None:
    with start_fleet():
        assert within(60, slots_run)
        began = time.monotonic()
        manager = platform.log()
        took = time.monotonic() - began
        mine = platform.log("worker=0")
        slot = platform.log("worker=0&slot=3")
        victim = FleetWorker.objects.get(index=0).slots.get(slot=3).pid
        assert victim
        os.kill(victim, signal.SIGKILL)
        assert within(60, lambda: slots_run({victim}))
        after = platform.log("worker=0&slot=3")

    assert manager["state"] == "read"
    assert any("starts" in line for line in manager["lines"])
    assert took < 9  # an answer, and no end of the wait
    assert any("starts" in line for line in mine["lines"])
    assert any(f"env process {victim} starts" in line for line in slot["lines"])
    assert any("ended with signal 9" in line for line in after["lines"])


def test_a_log_request_without_an_answer_has_a_reason(platform: Platform) -> None:
    run = launched(FakeCluster())
    accept(run, report(run, worker()))
    began = time.monotonic()

    answers: list[dict[str, Any]] = []
    reader = threading.Thread(
        target=lambda: answers.append(platform.log("worker=0&lines=5&wait=1"))
    )
    reader.start()
    reader.join(20)

    assert answers[0]["state"] == "waiting"
    assert "has not answered" in answers[0]["note"]
    assert time.monotonic() - began < 15


def test_invalid_log_requests_and_answers_are_refused(platform: Platform) -> None:
    run = launched(FakeCluster())
    accept(run, report(run, worker()))
    _, token = make_token("worker", run=run)

    for query in ("slot=1", "worker=-1", "worker=0&lines=0", "worker=x", "wait=99"):
        assert platform.status(query) == 400, query
    assert platform.status("worker=5") == 404
    late = httpx.post(
        f"{platform.url}/api/v1/runs/pole/fleet/logs/{REQUEST}",
        json={"lines": []},
        headers={"Authorization": f"Bearer {token}"},
        timeout=60,
    )
    assert late.status_code == 404
