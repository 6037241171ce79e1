"""Consistency checks of reports, and counters that survive restarts."""

import pytest

from rolldeck.wire import FleetReport, SlotReport, WorkerReport
from rollouts.control.rules import (
    InvalidReport,
    LaunchRequest,
    actor_name,
    check_report,
    env_steps_since,
    mean,
    recent_returns_of,
)


def worker(index: int, *slots: int) -> WorkerReport:
    return WorkerReport(
        index=index,
        incarnation="a",
        state="running",
        slots=[SlotReport(slot=slot, state="stepping") for slot in slots],
    )


def report(*workers: WorkerReport) -> FleetReport:
    return FleetReport(incarnation="1-a", sequence=0, state="running", workers=list(workers))


def test_a_report_may_name_each_worker_and_slot_once() -> None:
    check_report(report(worker(0, 0, 1), worker(1, 0, 1)))


def test_a_worker_named_twice_is_refused_by_name() -> None:
    with pytest.raises(InvalidReport) as caught:
        check_report(report(worker(0), worker(0)))

    assert caught.value.field == "workers[1].index"


def test_a_slot_named_twice_is_refused_by_name() -> None:
    with pytest.raises(InvalidReport) as caught:
        check_report(report(worker(0, 1), worker(1, 2, 2)))

    assert caught.value.field == "workers[1].slots[1].slot"


@pytest.mark.parametrize(
    ("before", "steps"),
    [(None, 100), (("a", 60), 40), (("b", 60), 100), (("a", 130), 0)],
    ids=["first report", "same worker", "restarted worker", "counter went back"],
)
def test_env_steps_are_counted_through_restarts(before: tuple[str, int] | None, steps: int) -> None:
    assert env_steps_since(before=before, incarnation="a", env_steps=100) == steps


def test_only_the_last_twenty_returns_are_kept() -> None:
    stored = recent_returns_of([float(n) for n in range(15)], [float(n) for n in range(15, 30)])

    assert stored == [float(n) for n in range(10, 30)]


def test_an_empty_list_has_no_mean() -> None:
    assert mean([]) is None
    assert mean([1.0, 2.0]) == 1.5


def test_the_repr_of_a_launch_omits_its_token() -> None:
    order = LaunchRequest(
        actor_name=actor_name(run="pole", attempt=2),
        incarnation="2-ff",
        run="pole",
        config={},
        platform_url="http://localhost",
        token="rd_secret",
    )

    assert order.actor_name == "rolldeck-pole-2"
    assert "rd_secret" not in repr(order)
