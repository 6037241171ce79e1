"""Check passwords with counted attempts, bounded concurrency and no held database connection."""

import os
import threading
from typing import Any, Final

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpRequest
from django.utils import timezone

from runs.access.services.known_browsers import known_browser
from runs.access.services.login_attempts import TooManyLogins, reserve_attempt, return_attempt

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
