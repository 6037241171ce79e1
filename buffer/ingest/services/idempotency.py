"""Do a push once, however often it is sent."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import xxhash
from django.db import transaction
from psycopg.types.json import Jsonb

from buffer.ingest.models import IdempotencyRecord
from buffer.items.queries import database

KEPT_FOR: Final = timedelta(hours=24)
FORGOTTEN_AT_ONCE: Final = 1000
_LOCK: Final = "SELECT pg_try_advisory_xact_lock(hashtext('rolldeck.key'), hashtext(%s))"
_FIND: Final = """
    SELECT body_fingerprint, answer::text FROM buffer_idempotencyrecord
    WHERE run_id = %s AND key = %s"""
_KEEP: Final = """
    INSERT INTO buffer_idempotencyrecord (run_id, key, body_fingerprint, answer, created_at)
    VALUES (%s, %s, %s, %s, %s)"""


class KeyReused(Exception):
    """The same key came with another body."""

    field = "Idempotency-Key"


class KeyInFlight(Exception):
    """A push with this key is being worked on right now."""

    field = "Idempotency-Key"


class InvalidKey(ValueError):
    """A key is empty, too long or not printable."""

    field = "Idempotency-Key"


@dataclass(frozen=True, slots=True, kw_only=True)
class PushKey:
    """What tells two pushes apart: the client's key and a hash of the body."""

    key: str
    body_fingerprint: str
    """XXH3-128 in hexadecimal: it guards a client against its own accidents, no more."""

    @classmethod
    def of(cls, key: str | None, body: bytes) -> "PushKey | None":
        """Return the key of a push, or None when the client gave none.

        Raises:
            InvalidKey: If the header cannot be a key.
        """
        if key is None:
            return None
        if not 0 < len(key) <= 255 or not key.isprintable():
            raise InvalidKey("a key has 1 to 255 printable characters")
        return cls(key=key, body_fingerprint=xxhash.xxh3_128_hexdigest(body))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a push was answered."""

    content: dict[str, Any]
    replayed: bool = False


def once(
    *, run_id: int, key: PushKey | None, now: datetime, push: Callable[[], dict[str, Any]]
) -> Answer:
    """Return the answer of `push`, or of the first push with this key.

    Raises:
        KeyReused: If the first push had another body.
        KeyInFlight: If the first push has not been answered yet.
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
            raise KeyInFlight(f"the push with key {key.key!r} has not been answered yet")
        # After the lock, by a statement of its own: it must see what its last holder wrote.
        known = cursor.execute(_FIND, [run_id, key.key], prepare=True).fetchone()
        if known is not None:
            fingerprint, first_answer = known
            if fingerprint != key.body_fingerprint:
                raise KeyReused(f"key {key.key!r} was used for another body")
            return Answer(content=msgspec.json.decode(first_answer), replayed=True)
        content = push()
        record = [run_id, key.key, key.body_fingerprint, Jsonb(content), now]
        cursor.execute(_KEEP, record, prepare=True)
    return Answer(content=content)


def forget_old_keys(*, now: datetime) -> int:
    """Delete keys that no client will send again; return how many."""
    old = IdempotencyRecord.objects.filter(created_at__lt=now - KEPT_FOR).order_by("created_at")
    ids = list(old.values_list("id", flat=True)[:FORGOTTEN_AT_ONCE])
    return IdempotencyRecord.objects.filter(id__in=ids).delete()[0]
