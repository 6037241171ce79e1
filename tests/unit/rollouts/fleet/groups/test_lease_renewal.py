"""The lease of an evaluation is renewed during the evaluation only."""

import threading

import pytest

from rolldeck.errors import Conflict, RolldeckError, Unreachable
from rollouts.fleet.groups.curriculum import LeaseRenewer

SHORT = 0.03
SECONDS = 30
AWAY = Unreachable(status=0, code="unreachable", detail="no response")


class Platform:
    """Accepts or refuses renewals."""

    def __init__(self, *answers: RolldeckError | None) -> None:
        self._answers = list(answers)
        self.renewals = threading.Semaphore(0)
        self.count = 0
        self.lost: list[RolldeckError] = []

    def renew(self) -> None:
        self.count += 1
        answer = self._answers.pop(0) if self._answers else None
        self.renewals.release()
        if answer is not None:
            raise answer

    def keeper(self) -> LeaseRenewer:
        return LeaseRenewer(self.renew, lease_seconds=SHORT, on_lost=self.lost.append)


def wait(platform: Platform, *, renewals: int) -> None:
    for _ in range(renewals):
        assert platform.renewals.acquire(timeout=SECONDS)


def test_a_lease_is_renewed_while_the_work_lasts() -> None:
    platform = Platform()
    with platform.keeper():
        wait(platform, renewals=5)
    after = platform.count

    # One renewal may have been in progress when the evaluation ended.
    assert not (platform.renewals.acquire(timeout=10 * SHORT) and platform.count > after + 1)
    assert platform.lost == []


def test_a_renewal_is_retried_in_an_outage() -> None:
    platform = Platform(AWAY, AWAY)
    with platform.keeper():
        wait(platform, renewals=4)
    assert platform.lost == []


def test_a_lost_lease_is_reported_once() -> None:
    refusal = Conflict(status=409, code="lease_lost", detail="it is another's")
    platform = Platform(None, refusal)
    with platform.keeper():
        wait(platform, renewals=2)
        assert not platform.renewals.acquire(timeout=10 * SHORT)
    assert platform.lost == [refusal]


def test_an_error_of_the_work_ends_the_renewal() -> None:
    platform = Platform()
    with pytest.raises(ZeroDivisionError), platform.keeper():
        raise ZeroDivisionError
    assert platform.count <= 1
