"""Store pushes of groups: their bytes in one object and their rows in one statement."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
from django.db import transaction

from buffer.ingest.services.arrivals import Arrival, Receipt
from buffer.ingest.services.idempotency import Claim, claims_params
from buffer.items.rules.states import ItemKind, ItemState
from buffer.items.services import Changes
from buffer.payloads.services.contents import JSON_CODEC, Writing, insert_contents
from web import database
from web.sql import statements_of

SQL: Final = statements_of("buffer")


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRows:
    """A push whose groups have ids, states and locations.

    Attributes:
        arrivals: The groups.
        receipts: Receipts of the groups; the claim stores them.
        changes: Changes of the counts.
        producer: Identity of the producer.
        now: Time of the request.
        claim: Claim of a push without a key.
    """

    arrivals: list[Arrival]
    receipts: list[Receipt]
    changes: Changes
    producer: str
    now: datetime
    claim: Claim | None = None


def insert_pushes(run_id: int, pushes: Sequence[PushRows]) -> list[bool]:
    """Insert the rows of pushes of one run in one statement.

    Returns:
        For each push, whether it was inserted: not if it has a claim that cannot be made.
    """
    params = {
        "run": run_id,
        "kind": str(ItemKind.GROUPS),
        **claims_params([push.claim for push in pushes if push.claim is not None]),
        # A JSON parameter for all rows: the driver takes 0.3 ms to encode 20 arrays.
        "pushes": _json([_push_row(number, push) for number, push in enumerate(pushes)]),
        "rows": _json(
            [
                {"push": number, **_group_row(arrival)}
                for number, push in enumerate(pushes)
                for arrival in push.arrivals
            ]
        ),
        "counts": _json(
            [
                {"push": number, **row}
                for number, push in enumerate(pushes)
                for row in push.changes.rows()
            ]
        ),
    }
    with database.cursor() as cursor:
        stored = dict(cursor.execute(SQL["insert_groups"], params, prepare=True).fetchall())
    for number, claim_id in stored.items():
        claim = pushes[number].claim
        if claim is not None:
            claim.row_id = claim_id
    return [number in stored for number in range(len(pushes))]


def _json(rows: list[dict[str, Any]]) -> str:
    return msgspec.json.encode(rows).decode()


def _push_row(number: int, push: PushRows) -> dict[str, Any]:
    return {
        "push": number,
        "received_at": push.now,
        "producer": push.producer[:200],
        "fingerprint": push.claim and push.claim.fingerprint.hex(),
        "receipt": push.receipts,
    }


def _group_row(arrival: Arrival) -> dict[str, Any]:
    group, location = arrival.group, arrival.location
    return {
        "id": arrival.item_id,
        "state": arrival.state,
        "drop_reason": arrival.receipt.dropped or "",
        "epoch": arrival.version.epoch,
        "policy_step": arrival.version.step,
        "env_id": group.env_id,
        "sequences": group.sequences,
        "tokens": group.tokens,
        "longest_tokens": group.longest_tokens,
        "score_mean": _number(group.score_mean),
        "score_min": _number(group.score_min),
        "score_max": _number(group.score_max),
        "score_std": _number(group.score_std),
        "size_bytes": len(group.content),
        "codec": location.codec,
        "crc32": location.crc32,
        "segment": location.segment,
        "object": location.object,
        "offset": location.offset,
        "origin": arrival.origin,
    }


def _number(value: float) -> float | str:
    """Return a number for JSON to PostgreSQL; NaN and infinities become text."""
    return value if math.isfinite(value) else str(value)


def store_pushes(run_id: int, pushes: Sequence[PushRows]) -> list[bool]:
    """Store pushes of one run in one transaction, or within the current one.

    A single push mostly waits, so a thread writes its bytes while the database receives its rows;
    the rows commit after both. Several pushes are written first, and need no transaction around
    their only statement: other threads use the time.

    Args:
        run_id: The run.
        pushes: The pushes; all their groups have one codec.

    Returns:
        For each push, whether it was stored: not if it has a claim that cannot be made.
    """
    kept = [_kept(push) for push in pushes]
    arrivals = [arrival for of_push in kept for arrival in of_push]
    writing = Writing(
        [arrival.group.content for arrival in arrivals],
        codec=arrivals[0].group.codec if arrivals else JSON_CODEC,
        in_background=len(pushes) == 1,
    )
    for arrival, location in zip(arrivals, writing.locations, strict=True):
        arrival.location = location
    with nullcontext() if writing.is_durable else transaction.atomic():
        stored = insert_pushes(run_id, pushes)
        insert_contents(
            ItemKind.GROUPS,
            [
                (arrival.item_id, arrival.location, arrival.group.content)
                for is_stored, of_push in zip(stored, kept, strict=True)
                for arrival in of_push
                if is_stored
            ],
        )
        writing.wait()
    if not any(stored):
        writing.discard_written()  # no row refers to the bytes
    return stored


def _kept(push: PushRows) -> list[Arrival]:
    """Return the groups of a push whose bytes are stored."""
    return [arrival for arrival in push.arrivals if arrival.state is not ItemState.DROPPED]
