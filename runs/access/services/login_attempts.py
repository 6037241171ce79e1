"""Count password attempts.

An attempt is counted before the password is checked, in one transaction: however many arrive at
the same time, in however many processes, no more than the limit are checked.
"""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import connection, transaction
from django.db.models import F

from runs.access.models.logins import LoginCount
from runs.access.rules import login_limits
from web.rules.errors import TooManyRequests

_KEPT: Final = timedelta(hours=1)
# The keys are sorted: two attempts lock rows that they share in the same order.
_COUNT: Final = """
    INSERT INTO runs_logincount AS counted (key, attempts, window_ends_at)
    SELECT key, 1, %(ends)s FROM unnest(%(keys)s::text[]) AS key
    ON CONFLICT (key) DO UPDATE SET
        attempts = CASE WHEN counted.window_ends_at > %(now)s THEN counted.attempts + 1 ELSE 1 END,
        window_ends_at = CASE WHEN counted.window_ends_at > %(now)s
            THEN counted.window_ends_at ELSE excluded.window_ends_at END
    RETURNING key, attempts, window_ends_at
"""


class TooManyLogins(TooManyRequests):
    """The limit of password attempts is reached."""

    title = "Too many attempts to sign in"

    def __init__(self, *, retry_after_seconds: int) -> None:
        super().__init__(f"too many sign-in attempts; try again in {retry_after_seconds} s")
        self.retry_after_seconds = retry_after_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginAttempt:
    """A counted attempt: its counters, each with the end of the window that it counts in."""

    windows: tuple[tuple[str, datetime], ...]


def reserve_attempt(*, name: str, address: str, browser: str = "", now: datetime) -> LoginAttempt:
    """Count an attempt to sign in, before its password is checked.

    Raises:
        TooManyLogins: If a counter is at its limit; then nothing is counted.
    """
    counters = login_limits.counters(name=name, address=address, browser=browser)
    limits = {counter.key: counter.limit for counter in counters}
    ends = now + timedelta(seconds=login_limits.WINDOW_SECONDS)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_COUNT, {"keys": sorted(limits), "now": now, "ends": ends})
            counted = cursor.fetchall()
        # An attempt that waited for a row's lock reads a window that began after its own `now`.
        waits = [min(until, ends) - now for key, count, until in counted if count > limits[key]]
        if waits:
            raise TooManyLogins(retry_after_seconds=math.ceil(max(waits).total_seconds()))
    return LoginAttempt(windows=tuple((key, until) for key, _, until in counted))


def return_attempt(attempt: LoginAttempt) -> None:
    """Uncount an attempt whose password was right: only wrong ones use up the limit."""
    for key, until in attempt.windows:
        found = LoginCount.objects.filter(key=key, window_ends_at=until, attempts__gt=0)
        found.update(attempts=F("attempts") - 1)


def delete_old_attempts(*, now: datetime) -> int:
    """Delete counters whose window ended more than an hour ago; return how many."""
    deleted, _ = LoginCount.objects.filter(window_ends_at__lt=now - _KEPT).delete()
    return deleted
