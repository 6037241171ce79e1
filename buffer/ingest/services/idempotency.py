"""Idempotency of pushes: a repeated push is not stored again and gets the first receipt.

A push with an idempotency key stores its receipt under the key for a day, in its own transaction.

A push without a key is identified by its bytes. The stock Atropos client repeats a push, byte for
byte, if it did not receive the answer; the same bytes after a received answer are new data. Such a
push therefore makes a claim on its bytes, a row in its own transaction, which ends when the answer
is written to the connection. The process that writes an answer knows its end at once; it marks the
row of the push for the other processes, in the background and without waiting for the disk, and
later deletes it. If the client closes the connection before, or the process ends, the claim lasts
60 s. An equal push of the same identity that arrives meanwhile gets the stored receipt. A push
whose client closed the connection before it is stored is not stored: the client repeats it.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
import xxhash
from django.db import connection, transaction

from buffer.ingest.models import IdempotencyRecord, UnansweredPush
from web import sql
from web.http.push_answers import PushAnswer
from web.rules.errors import ApiError, Conflict, Invalid
from web.sql import statements_of

SQL: Final = statements_of("buffer")

KEY_LIFETIME: Final = timedelta(hours=24)
CLAIM_SECONDS: Final = 60
CLAIM_LIFETIME: Final = timedelta(seconds=CLAIM_SECONDS)
"""Lifetime of the claim of a push whose answer was not written."""
DELETED_AT_ONCE: Final = 1000
MARKED_WITHIN_SECONDS: Final = 1.0
"""Time within which another process marks an answer that it has written."""
STALLED_AFTER: Final = timedelta(seconds=5)
"""Age of a claim after which its answer is not waited for."""
_POLL_SECONDS: Final = 0.002
MARKS_AT_MOST_EVERY_SECONDS: Final = 0.02
SECONDS_PER_MARK: Final = 0.002
"""Pause per marked row: few answers are marked at once, many together."""
KEPT_SECONDS: Final = 10.0
"""Time for which the row of an answered push stays.

An equal push may have arrived before the answer, and be stored after it.
"""
logger = logging.getLogger(__name__)

Key = tuple[int, bytes]
"""Run id and fingerprint of a push."""
R = TypeVar("R")


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
class PushResult(Generic[R]):
    """The receipt of a push."""

    receipt: R
    replayed: bool = False
    row_id: int = 0
    """Claim of a push without a key, which ends with the answer."""


def run_idempotent(
    *,
    run_id: int,
    key: PushKey | None,
    claim: "Claim | None" = None,
    now: datetime,
    push: Callable[[], R],
    kind: type[R],
) -> PushResult[R]:
    """Run `push` unless it is a repetition; return its receipt, or that of the first push.

    Args:
        run_id: The run.
        key: Identity of the push; None if the client sent no key.
        claim: Claim of a push without a key, which `push` makes; None if its answer is not tracked.
        now: Time of the request.
        push: Function that stores the push and returns its receipt.
        kind: Type of the receipt.

    Raises:
        KeyReused: If the first push had another body.
        KeyInFlight: If the first push is still in progress.
        ClientLeft: If the client of a claim has closed the connection.
    """
    if claim is not None:
        return _run_claimed(claim, push, kind)
    if key is None:
        return PushResult(receipt=push())
    with transaction.atomic(), sql.cursor() as cursor:
        (free,) = cursor.execute(
            SQL["lock_key"], [f"{run_id}:{key.key}"], prepare=True
        ).fetchone() or (False,)
        if not free:
            raise KeyInFlight(f"a push with key {key.key!r} is in progress: try again later")
        # A separate statement after the lock, to see the rows of the previous holder.
        known = cursor.execute(SQL["find_key"], [run_id, key.key], prepare=True).fetchone()
        if known is not None:
            fingerprint, first = known
            if fingerprint != key.body_fingerprint:
                raise KeyReused(f"key {key.key!r} was already used with another body")
            return PushResult(receipt=msgspec.json.decode(first, type=kind), replayed=True)
        receipt = push()
        encoded = msgspec.json.encode(receipt).decode()
        record = [run_id, key.key, key.body_fingerprint, encoded, now]
        cursor.execute(SQL["store_key"], record, prepare=True)
    return PushResult(receipt=receipt)


class Retried(Exception):
    """The first answer to the same push may be lost; the push is not stored again."""


class ClientLeft(ApiError):
    """The client closed the connection before its push was stored."""

    status = 408
    code = "client_left"
    title = "The client has closed the connection"


@dataclass(slots=True, kw_only=True)
class Claim:
    """The claim of a push without a key on its bytes.

    The statement that stores the push contains `claim_pushes`, with the parameters of
    :func:`claims_params`, and sets `row_id`.
    """

    fingerprint: bytes
    """16-byte hash of the identity, the length and the body."""
    arrived_at: datetime
    """Time at which the push arrived, which is also its time of receipt."""
    client_left: Callable[[], bool]
    """Returns whether the client has closed the connection."""
    run_id: int = 0
    """The run; 0 until it is known."""
    row_id: int = 0

    @classmethod
    def of(cls, answer: PushAnswer, *, identity: str, body: bytes) -> "Claim":
        """Return the claim of a push.

        XXH3 hashes 0.5 MB in 0.01 ms; SHA-256 takes 0.29 ms. It resists accidental collisions
        (2⁻¹²⁸), not attacks, but a collision within an identity affects only its own data.
        """
        fingerprint = xxhash.xxh3_128(f"{len(body)} {identity}\0".encode())
        fingerprint.update(body)
        return cls(
            fingerprint=fingerprint.digest(),
            arrived_at=answer.arrived_at,
            client_left=answer.client_left,
        )

    def check_client(self) -> None:
        """Check that the client can still receive an answer.

        Raises:
            ClientLeft: If it has closed the connection. It has no answer and repeats the push.
        """
        if self.client_left():
            raise ClientLeft("the client closed the connection before the push was stored")

    @property
    def key(self) -> tuple[int, bytes]:
        return self.run_id, self.fingerprint


class AnswerEnd(NamedTuple):
    """End of the answer to a push."""

    row_id: int
    answered_at: datetime | None
    """Time at which it was written; None if the client had closed the connection."""

    def is_before(self, arrived_at: datetime) -> bool:
        """Return whether the client had the answer before an equal push arrived."""
        return self.answered_at is not None and self.answered_at <= arrived_at


class _AnsweredPushes:
    """Ends of the answers of this process, until their rows are deleted."""

    def __init__(self) -> None:
        self._ends: dict[Key, AnswerEnd] = {}
        self._unmarked: list[tuple[Key, AnswerEnd]] = []
        self._marked: deque[tuple[float, Key, AnswerEnd]] = deque()
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None

    def get(self, key: Key) -> AnswerEnd | None:
        """Return the end of the last answer to a push."""
        return self._ends.get(key)

    def record(self, key: Key, row_id: int, answered_at: datetime | None) -> None:
        end = AnswerEnd(row_id, answered_at)
        self._ends[key] = end
        with self._news:
            self._unmarked.append((key, end))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
            self._news.notify()

    def _work(self) -> None:
        while True:
            with self._news:
                if not self._unmarked:
                    if not self._marked:
                        connection.close()
                    self._news.wait(1.0 if self._marked else None)
                marks, self._unmarked = self._unmarked, []
            try:
                self._store(marks)
            except Exception as error:  # noqa: BLE001 any outage of the database
                logger.warning("rows of answered pushes not marked, retrying: %r", error)
                connection.close()
                with self._news:
                    self._unmarked = [*marks, *self._unmarked]
                time.sleep(1.0)
            else:
                time.sleep(min(MARKS_AT_MOST_EVERY_SECONDS, len(marks) * SECONDS_PER_MARK))

    def _store(self, marks: list[tuple[Key, AnswerEnd]]) -> None:
        """Mark rows, and delete those marked long enough ago."""
        now = time.monotonic()
        old = list(takewhile(lambda one: one[0] < now - KEPT_SECONDS, self._marked))
        # The row of a client that left expires instead, as does one that is not deleted here.
        rows = [end.row_id for *_, end in old if end.answered_at is not None]
        if marks or rows:
            ends = [end for _, end in marks]
            values = {
                "ids": [end.row_id for end in ends],
                "times": [end.answered_at for end in ends],
                "deleted": rows,
            }
            with sql.cursor() as cursor:
                cursor.execute(SQL["mark_answers"], values, prepare=True)
        self._marked.extend((now, key, end) for key, end in marks)
        for _, key, end in old:
            self._marked.popleft()
            if self._ends.get(key) == end:
                del self._ends[key]


answered = _AnsweredPushes()


def claims_params(claims: Iterable[Claim]) -> dict[str, Any]:
    """Return the parameters of `claim_pushes`, except those of the run and the pushes."""
    ended = [
        found.row_id
        for claim in claims
        if (found := answered.get(claim.key)) and found.is_before(claim.arrived_at)
    ]
    return {"answered": ended, "claim_lifetime": CLAIM_LIFETIME}


def _run_claimed(claim: Claim, push: Callable[[], R], kind: type[R]) -> PushResult[R]:
    """Store a push and return its receipt, or the earlier one if its answer may have been lost."""
    while True:
        try:
            claim.check_client()
            return PushResult(receipt=push(), row_id=claim.row_id)
        except ClientLeft:
            raise
        except Retried:
            first = _first_result(claim, kind)
        except Exception:
            # The run may be full or ended by now, but an earlier push is still stored.
            first = _first_result(claim, kind)
            if first is None:
                raise
        if first is not None:
            return first


def _first_result(claim: Claim, kind: type[R]) -> PushResult[R] | None:
    """Return the result of an equal push whose claim lasts; None if there is none."""
    until = time.monotonic() + MARKED_WITHIN_SECONDS
    while True:
        row = UnansweredPush.objects.filter(
            run_id=claim.run_id, fingerprint=claim.fingerprint
        ).first()
        if row is None or row.accepted_at < claim.arrived_at - CLAIM_LIFETIME:
            return None
        end = AnswerEnd(row.pk, row.answered_at) if row.answered_at or row.client_left else None
        if (own := answered.get(claim.key)) and own.row_id == row.pk:
            end = own
        if end and end.is_before(claim.arrived_at):
            return None
        is_stalled = row.accepted_at < claim.arrived_at - STALLED_AFTER
        if end or is_stalled or time.monotonic() >= until:
            receipt = msgspec.convert(row.receipt, kind)
            return PushResult(receipt=receipt, row_id=row.pk, replayed=True)
        time.sleep(_POLL_SECONDS)


def delete_old_keys(*, now: datetime) -> int:
    """Delete keys older than 24 hours; return the number deleted."""
    old = IdempotencyRecord.objects.filter(created_at__lt=now - KEY_LIFETIME).order_by("created_at")
    ids = list(old.values_list("id", flat=True)[:DELETED_AT_ONCE])
    return IdempotencyRecord.objects.filter(id__in=ids).delete()[0]


def delete_old_pushes(*, now: datetime) -> int:
    """Delete claims of pushes without a key that have ended; return the number deleted."""
    old = UnansweredPush.objects.filter(accepted_at__lt=now - CLAIM_LIFETIME)
    ids = list(old.order_by("accepted_at").values_list("id", flat=True)[:DELETED_AT_ONCE])
    return UnansweredPush.objects.filter(id__in=ids).delete()[0]
