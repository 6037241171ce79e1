"""Do a push once, however often it is sent."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from django.db import connection, transaction

from buffer.models import IdempotencyRecord

KEPT_FOR: Final = timedelta(hours=24)
FORGOTTEN_AT_ONCE: Final = 1000


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
    body_sha256: str

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
        return cls(key=key, body_sha256=sha256(body).hexdigest())


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
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_try_advisory_xact_lock(hashtext('rolldeck.key'), hashtext(%s))",
            [f"{run_id}:{key.key}"],
        )
        (free,) = cursor.fetchone() or (False,)
    if not free:
        raise KeyInFlight(f"the push with key {key.key!r} has not been answered yet")
    known = IdempotencyRecord.objects.filter(run_id=run_id, key=key.key).first()
    if known is not None:
        if known.body_sha256 != key.body_sha256:
            raise KeyReused(f"key {key.key!r} was used for another body")
        return Answer(content=known.answer, replayed=True)
    content = push()
    IdempotencyRecord.objects.create(
        run_id=run_id,
        key=key.key,
        body_sha256=key.body_sha256,
        answer=content,
        created_at=now,
    )
    return Answer(content=content)


def forget_old_keys(*, now: datetime) -> int:
    """Delete keys that no client will send again; return how many."""
    old = IdempotencyRecord.objects.filter(created_at__lt=now - KEPT_FOR).order_by("created_at")
    ids = list(old.values_list("id", flat=True)[:FORGOTTEN_AT_ONCE])
    return IdempotencyRecord.objects.filter(id__in=ids).delete()[0]
