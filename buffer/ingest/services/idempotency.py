"""Idempotency keys, with which a repeated push runs once."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import xxhash
from django.db import transaction
from psycopg.types.json import Jsonb

from buffer.ingest.models import IdempotencyRecord
from web import database
from web.rules.errors import ApiError, Conflict, Invalid

KEPT_FOR: Final = timedelta(hours=24)
FORGOTTEN_AT_ONCE: Final = 1000
_LOCK: Final = "SELECT pg_try_advisory_xact_lock(hashtext('rolldeck.key'), hashtext(%s))"
_FIND: Final = """
    SELECT body_fingerprint, answer::text FROM buffer_idempotencyrecord
    WHERE run_id = %s AND key = %s"""
_KEEP: Final = """
    INSERT INTO buffer_idempotencyrecord (run_id, key, body_fingerprint, answer, created_at)
    VALUES (%s, %s, %s, %s, %s)"""


class KeyReused(ApiError):
    """The key was already used with another body."""

    status = 422
    code = "idempotency_conflict"
    title = "Key used for another body"
    field = "Idempotency-Key"


class KeyInFlight(Conflict):
    """A push with this key is in progress."""

    code = "in_flight"
    title = "The first push is not answered yet"
    retry_after_seconds = 1
    field = "Idempotency-Key"


class InvalidKey(Invalid):
    """A key is empty, too long or not printable."""

    field = "Idempotency-Key"


@dataclass(frozen=True, slots=True, kw_only=True)
class PushKey:
    """Identity of a push: the client's key and a hash of the body."""

    key: str
    body_fingerprint: str
    """XXH3-128 in hexadecimal; detects accidental key reuse, not attacks."""

    @classmethod
    def of(cls, key: str | None, body: bytes) -> "PushKey | None":
        """Return the key of a push, or None if the client sent none.

        Raises:
            InvalidKey: If the header is not a valid key.
        """
        if key is None:
            return None
        if not 0 < len(key) <= 255 or not key.isprintable():
            raise InvalidKey("must have 1 to 255 printable characters")
        return cls(key=key, body_fingerprint=xxhash.xxh3_128_hexdigest(body))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a push."""

    content: dict[str, Any]
    replayed: bool = False


def once(
    *, run_id: int, key: PushKey | None, now: datetime, push: Callable[[], dict[str, Any]]
) -> Answer:
    """Run `push` unless the key is known; return its answer, or that of the first push.

    Raises:
        KeyReused: If the first push had another body.
        KeyInFlight: If the first push is still in progress.
    """
    if key is None:
        return Answer(content=push())
    with transaction.atomic():
        return _once(run_id, key, now, push)


def _once(run_id: int, key: PushKey, now: datetime, push: Callable[[], dict[str, Any]]) -> Answer:
    with database.cursor() as cursor:
        (free,) = cursor.execute(_LOCK, [f"{run_id}:{key.key}"], prepare=True).fetchone() or (
            False,
        )
        if not free:
            raise KeyInFlight(f"a push with key {key.key!r} is in progress: try again later")
        # A separate statement after the lock, to see the rows of the previous holder.
        known = cursor.execute(_FIND, [run_id, key.key], prepare=True).fetchone()
        if known is not None:
            fingerprint, first_answer = known
            if fingerprint != key.body_fingerprint:
                raise KeyReused(f"key {key.key!r} was already used with another body")
            return Answer(content=msgspec.json.decode(first_answer), replayed=True)
        content = push()
        record = [run_id, key.key, key.body_fingerprint, Jsonb(content), now]
        cursor.execute(_KEEP, record, prepare=True)
    return Answer(content=content)


def forget_old_keys(*, now: datetime) -> int:
    """Delete keys older than 24 hours; return the number deleted."""
    old = IdempotencyRecord.objects.filter(created_at__lt=now - KEPT_FOR).order_by("created_at")
    ids = list(old.values_list("id", flat=True)[:FORGOTTEN_AT_ONCE])
    return IdempotencyRecord.objects.filter(id__in=ids).delete()[0]
