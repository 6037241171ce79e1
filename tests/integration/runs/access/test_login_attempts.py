"""Waits of refused sign-ins, in whichever order attempts reach their counters."""

from datetime import timedelta

import pytest

from runs.access.rules import ATTEMPTS_PER_NAME_AND_PLACE, WINDOW_SECONDS
from runs.access.services.passwords import TooManyLogins, reserve_attempt
from tests.factories import NOON

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("seconds_since_the_first", "expected"),
    [(0.0, 60), (30.0, 30), (59.5, 1), pytest.param(-0.5, 60, id="waited for the counter's lock")],
)
def test_the_wait_is_never_longer_than_a_window(
    seconds_since_the_first: float, expected: int
) -> None:
    for _ in range(ATTEMPTS_PER_NAME_AND_PLACE):
        reserve_attempt(name="alice", address="192.0.2.1", now=NOON)

    now = NOON + timedelta(seconds=seconds_since_the_first)
    with pytest.raises(TooManyLogins) as refused:
        reserve_attempt(name="alice", address="192.0.2.1", now=now)

    assert refused.value.retry_after_seconds == expected <= WINDOW_SECONDS
