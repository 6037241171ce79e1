"""Processes that stop to send heartbeats are found; outages and clock jumps are not hangs."""

from datetime import UTC, datetime, timedelta

import pytest

from config.embedded.supervisor import HangWatch

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
AWAY = "the database is away"


@pytest.mark.parametrize(
    ("readings", "is_hung"),
    [
        # (seconds on the supervisor's clock, heartbeat after noon in seconds)
        ([], False),
        ([(0, 0)], False),
        ([(0, 0), (15, 15), (30, 30), (90, 90)], False),
        ([(0, 0), (15, 0), (30, 0), (45, 0)], False),
        ([(0, 0), (15, 0), (30, 0), (45, 0), (60, 0)], True),
        ([(0, 0), (60, 0), (75, 75)], False),
        # No heartbeat yet: the process is starting.
        ([(0, None), (60, None), (120, None)], False),
        # Without a database, no process can send heartbeats.
        ([(0, 0), (15, AWAY), (75, 0)], False),
        ([(0, 0), (15, AWAY), (30, 0), (75, 0)], False),
        ([(0, 0), (15, AWAY), (30, 0), (90, 0)], True),
        # A suspended machine or a changed clock: only changes count.
        ([(0, 0), (15, 86_400)], False),
        ([(0, 86_400), (15, 0), (60, 15)], False),
    ],
)
def test_a_process_without_new_heartbeats_is_hung(
    readings: list[tuple[float, float | str | None]], is_hung: bool
) -> None:
    answers = [answer for _, answer in readings]

    def read() -> dict[int, datetime]:
        answer = answers.pop(0)
        if isinstance(answer, str):
            raise OSError(answer)
        return {} if answer is None else {7: NOON + timedelta(seconds=answer)}

    watch = HangWatch(read)
    for seconds, _ in readings:
        watch.update(float(seconds))
    assert watch.is_hung(7) is is_hung
    assert not watch.is_hung(8)
