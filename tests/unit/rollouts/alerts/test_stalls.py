from datetime import UTC, datetime, timedelta
from typing import Any

from rollouts.alerts.rules.stalls import Flow, Stall, stall_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TIMEOUT = timedelta(minutes=10)


def minutes_ago(minutes: float) -> datetime:
    return NOON - timedelta(minutes=minutes)


def stall(**fields: Any) -> Stall | None:
    flow: dict[str, Any] = {
        "running_since": minutes_ago(60),
        "queued": 0,
        "leased": 0,
        "batch_size": 8,
        "arrived_at": None,
        "taken_at": None,
    }
    return stall_of(Flow(**(flow | fields)), timeout=TIMEOUT, now=NOON)


def test_producers_are_missing_where_no_batch_is_complete_and_no_items_arrive() -> None:
    assert stall() is Stall.PRODUCERS
    assert stall(queued=7, arrived_at=minutes_ago(11)) is Stall.PRODUCERS
    assert stall(queued=7, arrived_at=minutes_ago(9)) is None
    assert stall(running_since=minutes_ago(9)) is None


def test_trainers_are_missing_where_a_batch_is_ready_and_not_leased() -> None:
    assert stall(queued=8, arrived_at=minutes_ago(1)) is Stall.TRAINERS
    assert stall(queued=8, taken_at=minutes_ago(11)) is Stall.TRAINERS
    assert stall(queued=8, taken_at=minutes_ago(9)) is None


def test_no_trainer_is_missing_while_one_has_a_lease() -> None:
    assert stall(leased=8) is None
    assert stall(leased=8, queued=80, taken_at=minutes_ago(50)) is None


def test_a_recently_resumed_run_has_a_grace_period() -> None:
    assert stall(running_since=minutes_ago(1), arrived_at=minutes_ago(600)) is None


def test_without_a_batch_size_any_number_of_groups_is_a_batch() -> None:
    assert stall(batch_size=None, queued=1) is Stall.TRAINERS
    assert stall(batch_size=None) is Stall.PRODUCERS
