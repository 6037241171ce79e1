"""Check passwords with counted attempts, bounded concurrency and no held database connection.

An attempt is counted before the password is checked, in one transaction: however many arrive at
the same time, in however many processes, no more than the limit are checked.
"""

import math
import os
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import authenticate as authenticate_person
from django.contrib.auth import password_validation
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.db.models import F
from django.http import HttpRequest
from django.utils import timezone

from runs.access import rules
from runs.access.models import LoginCount, User
from runs.access.services.sessions import known_browser
from runs.events.services import record_event
from web.rules.errors import Forbidden, Invalid, TooManyRequests


class WrongPassword(Forbidden):
    """The current password is wrong."""

    code = "wrong_password"
    title = "Wrong password"


CONTEXT_WORDS: Final = frozenset(
    {"rolldeck", "admin", "administrator", "superuser", "operator", "viewer", "trainer", "password"}
)
"""Words that people try first on this platform; the deployment's name comes in addition."""


class ContextWords:
    """A rule of Django's password validation: no word of this platform, with digits and signs."""

    def validate(self, password: str, user: User | None = None) -> None:  # noqa: ARG002 Django's
        """Refuse a password whose letters are such a word."""
        words = {_letters(word) for word in (*CONTEXT_WORDS, settings.ROLLDECK_DEPLOYMENT)}
        if _letters(password) in words - {""}:
            raise ValidationError(self.get_help_text(), code="password_of_context")

    def get_help_text(self) -> str:
        """Return the rule for forms."""
        return "Your password must not be a name of this platform or a role with digits or signs."


def _letters(text: str) -> str:
    return "".join(filter(str.isalpha, text)).lower()


class WeakPassword(Invalid):
    """The new password is too easy to guess."""

    field = "new_password"


def change_password(
    request: HttpRequest, user: User, *, current: str, new: str, actor: str, now: datetime
) -> None:
    """Change the password of a person, which ends their other sessions and their login links.

    The check of the current password counts as an attempt to sign in.

    Raises:
        WrongPassword: If `current` is wrong.
        WeakPassword: If `new` breaks a rule of passwords; the message lists the rules.
        TooManyLogins: If the limit of attempts is reached.
    """
    name = user.get_username()
    if authenticate_person(request, username=name, password=current) is None:
        raise WrongPassword("the current password is wrong")
    try:
        password_validation.validate_password(new, user)
    except ValidationError as error:
        raise WeakPassword(" ".join(error.messages)) from error
    user.set_password(new)
    with transaction.atomic():
        user.save(update_fields=["password"])
        record_event(
            run_id=None,
            kind="password_changed",
            message=f"{name} changed their password",
            actor=actor,
            now=now,
        )


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
    counters = rules.counters(name=name, address=address, browser=browser)
    limits = {counter.key: counter.limit for counter in counters}
    ends = now + timedelta(seconds=rules.WINDOW_SECONDS)
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


# A hash takes a core for a few tenths of a second; half of the cores remain for requests.
HASHES_AT_A_TIME: Final = max(1, (os.cpu_count() or 1) // 2)
# Attempts per process that are being counted, waiting for a hash, or hashing.
ATTEMPTS_AT_A_TIME: Final = 16
BUSY_RETRY_SECONDS: Final = 5

_hashes = threading.BoundedSemaphore(HASHES_AT_A_TIME)
_attempts = threading.BoundedSemaphore(ATTEMPTS_AT_A_TIME)


class BoundedPBKDF2PasswordHasher(PBKDF2PasswordHasher):
    """Django's hasher; at most :data:`HASHES_AT_A_TIME` compute in a process."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        """Return the hash of a password."""
        if not connection.in_atomic_block:
            connection.close()  # returned to the pool while hashing
        with _hashes:
            return super().encode(password, salt, iterations)


class CountedPasswords(ModelBackend):
    """The only authentication backend: every attempt is counted before its password is checked."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **kwargs: Any,
    ) -> User | None:
        """Return the user, or None if the name or the password is wrong.

        Raises:
            TooManyLogins: If the limit is reached; the password is not checked.
        """
        if username is None or password is None:
            return None
        if not _attempts.acquire(blocking=False):
            raise TooManyLogins(retry_after_seconds=BUSY_RETRY_SECONDS)
        try:
            attempt = reserve_attempt(
                name=username,
                address=address_of(request),
                browser=known_browser(request, username),
                now=timezone.now(),  # noqa: TID251 Django calls this without a time
            )
            user = super().authenticate(request, username=username, password=password, **kwargs)
        finally:
            _attempts.release()
        if user is not None:
            return_attempt(attempt)
        return user


def address_of(request: HttpRequest | None) -> str:
    """Return the IP address that a request comes from."""
    return "" if request is None else str(request.META.get("REMOTE_ADDR", ""))
