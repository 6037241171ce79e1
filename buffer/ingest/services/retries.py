"""Deduplication of repeated pushes from clients without idempotency keys.

The stock Atropos client repeats a push, byte for byte, if it did not receive the answer. The same
bytes after a received answer are new data. Every push without a key therefore stores a row, in its
own transaction, until its answer is known to have been read by the client. An equal push of the
same identity that finds such a row gets the stored answer.

The process that sends the answer records its delivery in memory and deletes the row shortly
after, without waiting for the disk. If it dies in between, the row stays. In the worst case, new
data that is identical to the byte within ten minutes is taken for a retry.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeVar

import msgspec
import xxhash
from django.db import connection, transaction

from buffer.ingest.models import UnansweredPush
from buffer.ingest.services.senders import is_alive, this_process

RETRIED_WITHIN: Final = timedelta(minutes=10)
# Delay until other processes see that an answer was delivered.
NOTED_WITHIN_SECONDS: Final = 0.25
# Time for which a repeated push waits for the delivery state of the first answer.
KNOWN_WITHIN_SECONDS: Final = 1.0
_FORGOTTEN_AT_ONCE: Final = 1000
_POLL_SECONDS: Final = 0.02
CLAIM: Final = """
    INSERT INTO buffer_unansweredpush AS known (run_id, fingerprint, sender, answer, accepted_at)
    VALUES (%(run)s, %(fingerprint)s, %(sender)s, %(answer)s, %(now)s)
    ON CONFLICT (run_id, fingerprint) DO UPDATE
    SET id = EXCLUDED.id, sender = EXCLUDED.sender, answer = EXCLUDED.answer,
        accepted_at = EXCLUDED.accepted_at
    WHERE known.id = %(delivered)s OR known.accepted_at < %(too_old)s
    RETURNING id"""
logger = logging.getLogger(__name__)

Key = tuple[int, bytes]
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImplicitKey:
    """Identity of a push without a key."""

    run_id: int
    fingerprint: bytes
    """16-byte hash of the identity, the length and the body."""

    @classmethod
    def of(cls, *, run_id: int, identity: str, body: bytes) -> "ImplicitKey":
        """Return the identity of a push.

        XXH3 hashes 0.5 MB in 0.01 ms; SHA-256 takes 0.29 ms. It resists accidental collisions
        (2⁻¹²⁸), not attacks, but a collision within an identity affects only its own data.
        """
        fingerprint = xxhash.xxh3_128(f"{len(body)} {identity}\0".encode())
        fingerprint.update(body)
        return cls(run_id=run_id, fingerprint=fingerprint.digest())

    @property
    def key(self) -> Key:
        """Return the run id and the fingerprint."""
        return self.run_id, self.fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class PushResult:
    """The answer to a push, and the row to delete once the answer was delivered."""

    content: dict[str, Any]
    row_id: int
    replayed: bool


class Retried(Exception):
    """The first answer to the same push may be lost; the push is not stored again."""


class Claim(Generic[R]):
    """The row of a push in progress.

    The code that stores the push makes the claim in the same statement or transaction: it runs
    :data:`CLAIM` with :meth:`params` and passes the returned row to :meth:`made`.
    """

    def __init__(
        self, push: ImplicitKey, *, now: datetime, answer: Callable[[R], dict[str, Any]]
    ) -> None:
        """Prepare a claim; `answer` builds the content of the answer from the receipts."""
        self.push = push
        self.row_id = 0
        self.content: dict[str, Any] = {}
        self._now = now
        self._answer = answer

    def params(self, receipts: R) -> dict[str, Any]:
        """Return the parameters of :data:`CLAIM`."""
        self.content = self._answer(receipts)
        return {
            "run": self.push.run_id,
            "fingerprint": self.push.fingerprint,
            "sender": this_process(),
            "answer": msgspec.json.encode(self.content).decode(),
            "now": self._now,
            "delivered": _deliveries.row_of(self.push.key),
            "too_old": self._now - RETRIED_WITHIN,
        }

    def made(self, row: tuple[Any, ...] | None) -> None:
        """Process the row that the statement returned.

        Raises:
            Retried: If there is no row: the same push is in progress or was answered.
        """
        if row is None:
            raise Retried
        self.row_id = int(row[0])


def once_without_key(*, claim: Claim[Any], store: Callable[[], object]) -> PushResult:
    """Store a push and return its answer, or the earlier answer if that may have been lost.

    Args:
        claim: Claim of the push.
        store: Function that stores the push and makes the claim.
    """
    while True:
        try:
            store()
        except Retried:
            first = _first_answer(claim.push)
        except Exception:
            # The run may be full or ended by now, but an earlier push is still stored.
            first = _first_answer(claim.push)
            if first is None:
                raise
        else:
            return PushResult(content=claim.content, row_id=claim.row_id, replayed=False)
        if first is not None:
            return first


def _first_answer(push: ImplicitKey) -> PushResult | None:
    """Return the earlier answer to the same push; None if it is known to have arrived."""
    until = time.monotonic() + KNOWN_WITHIN_SECONDS
    while True:
        row = UnansweredPush.objects.filter(
            run_id=push.run_id, fingerprint=push.fingerprint
        ).first()
        if row is None or _deliveries.row_of(push.key) == row.pk:
            return None
        if time.monotonic() >= until or _is_settled(push, row):
            return PushResult(content=row.answer, row_id=row.pk, replayed=True)
        # Another process may have delivered the answer without deleting the row yet.
        time.sleep(_POLL_SECONDS)


def _is_settled(push: ImplicitKey, row: UnansweredPush) -> bool:
    """Return whether the delivery state of a row's answer is final.

    After this process has sent an answer, it takes a moment to learn whether the client read it.
    """
    if row.sender == this_process():
        return not _deliveries.is_sent(push.key, row.pk)
    return is_alive(row.sender) is False


def note_sent_push(push: ImplicitKey, row_id: int) -> None:
    """Record that the answer to a push was handed to the connection."""
    _deliveries.note_sent(push.key, row_id)


def note_answered_push(push: ImplicitKey, row_id: int, was_read: bool) -> None:
    """Record whether the client read the answer; if so, the row is deleted in the background."""
    _deliveries.note(push.key, row_id, was_read=was_read)


def forget_old_pushes(*, now: datetime) -> int:
    """Delete rows of pushes older than ten minutes; return the number deleted."""
    old = UnansweredPush.objects.filter(accepted_at__lt=now - RETRIED_WITHIN)
    ids = list(old.order_by("accepted_at").values_list("id", flat=True)[:_FORGOTTEN_AT_ONCE])
    return UnansweredPush.objects.filter(id__in=ids).delete()[0]


class _Deliveries:
    """Rows of delivered answers, until they are deleted."""

    def __init__(self) -> None:
        self._rows: dict[Key, int] = {}
        self._sent: dict[Key, int] = {}
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._thread: threading.Thread | None = None

    def row_of(self, key: Key) -> int | None:
        """Return the row whose answer this process delivered, if it may not be deleted yet."""
        with self._lock:
            return self._rows.get(key)

    def is_sent(self, key: Key, row_id: int) -> bool:
        """Return whether an answer was sent and is not known to be unread."""
        with self._lock:
            return row_id in {self._sent.get(key), self._rows.get(key)}

    def note_sent(self, key: Key, row_id: int) -> None:
        """Record an answer that was sent."""
        with self._lock:
            self._sent[key] = row_id

    def note(self, key: Key, row_id: int, *, was_read: bool) -> None:
        """Record an answer that was read; remove one that was not."""
        with self._lock:
            if self._sent.get(key) == row_id:
                del self._sent[key]
            if not was_read:
                return
            self._rows[key] = row_id
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
        self._news.set()

    def _work(self) -> None:
        while True:
            self._news.wait()
            self._news.clear()
            time.sleep(NOTED_WITHIN_SECONDS)
            try:
                self._forget()
            except Exception:
                logger.warning("cannot delete the rows of answered pushes, retrying", exc_info=True)
            finally:
                connection.close()

    def _forget(self) -> None:
        with self._lock:
            rows = dict(self._rows)
        with transaction.atomic(), connection.cursor() as cursor:
            # Losing this delete is harmless: old rows are deleted anyway.
            cursor.execute("SET LOCAL synchronous_commit TO off")
            cursor.execute(
                "DELETE FROM buffer_unansweredpush WHERE id = ANY(%s)", [list(rows.values())]
            )
        with self._lock:
            for key, row_id in rows.items():
                if self._rows.get(key) == row_id:
                    del self._rows[key]


_deliveries = _Deliveries()
