"""Accept pushes of fragments."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec
from django.db import connection, transaction

from buffer.ingest.rules import fragments as fragment_rules
from buffer.ingest.rules.versions import drop_reason
from buffer.ingest.rules.waiting import WaitingFragment, cut
from buffer.ingest.schemas.bodies import InvalidPush, decode_envelope, invalid_push
from buffer.ingest.services import backpressure
from buffer.ingest.services.groups import RunNotAccepting
from buffer.items.models import FragmentChunk
from buffer.items.queries import StoredAmounts, admission, stored_amounts
from buffer.items.rules.ledger import ACCEPTED
from buffer.items.rules.states import DropReason, ItemKind, ItemState
from buffer.items.services import Changes, Counted, counted, lock_slots
from buffer.payloads.services.contents import (
    MSGPACK_CODEC,
    NOT_STORED,
    PayloadLocation,
    insert_contents,
    write_contents,
)
from buffer.payloads.services.eviction import evict, keep_within_capacity
from rolldeck import batches
from rolldeck.wire import Fragment, FragmentReceipt
from runs.config.rules.sections import ReplayConfig, replay_of
from runs.lifecycle.models import Run
from runs.lifecycle.rules import ACCEPTING, PolicyVersion
from web import database
from web.live.announcements import announce
from web.rows import first_row
from web.sql import statements_of

SQL: Final = statements_of("buffer")

# The bytes of an encoded fragment, or a view of the push that contains them.
Encoded = bytes | memoryview


def decode_push(body: bytes) -> list[tuple[Fragment, Encoded]]:
    """Return the validated fragments of a push with their bytes.

    Raises:
        InvalidPush: At the first value that does not match :mod:`rolldeck.wire`.
    """
    push = decode_envelope(batches.decode_push, body)
    return [
        (decode_fragment(content, f"fragments[{index}]"), content)
        for index, content in enumerate(push.fragments)
    ]


def decode_fragment(content: Encoded, place: str) -> Fragment:
    """Return a validated fragment; `place` is its path in errors.

    Raises:
        InvalidPush: If it does not match :mod:`rolldeck.wire`.
    """
    try:
        fragment = batches.decode_fragment(content)
        fragment_rules.check(fragment)
    except fragment_rules.BrokenFragment as error:
        raise InvalidPush(f"{place}.{error.field}", error.message) from error
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise invalid_push(place, error) from error
    if max(fragment.number >> 31, fragment.epoch, fragment.version_max) > (1 << 31) - 1:
        raise InvalidPush(place, "contains a number that is too large")
    return fragment


@transaction.atomic(savepoint=False)
def accept_fragments(
    *, run: Run, fragments: Sequence[tuple[Fragment, Encoded]], now: datetime
) -> FragmentReceipt:
    """Store the fragments of one push; count fragments that are already stored as duplicates.

    Fragments that cannot train the run's policy any more are stored as dropped, without bytes.

    Raises:
        RunNotAccepting: If the run has ended or takes groups.
        QueueFull: If the run is at its limit of fragments or bytes.
        DiskFull: If free disk space is below the minimum.
    """
    run = _accepting(run)
    held = stored_amounts(run)
    backpressure.check_room(
        run, ItemKind.FRAGMENTS, items=held.open_items, size_bytes=held.open_bytes
    )
    current = PolicyVersion(run.epoch, run.policy_step)
    reasons = [
        drop_reason(
            PolicyVersion(fragment.epoch, fragment.version_min),
            PolicyVersion(fragment.epoch, fragment.version_max),
            current=current,
            epoch=run.epoch,
            max_staleness=run.max_staleness,
        )
        for fragment, _ in fragments
    ]
    replay = replay_of(run.config)
    state = ItemState.QUEUED if replay.fragments_per_chunk == 1 else ItemState.WAITING
    places = _positions(fragments, reasons)
    states = [state if reason is None else ItemState.DROPPED for reason in reasons]
    ends = list(zip(states, reasons, places, strict=True))
    ids = insert_fragments(run, fragments, ends, now=now)
    fresh = [
        (item_id, fragment, place, content, reason)
        for item_id, (fragment, content), place, reason in zip(
            ids, fragments, places, reasons, strict=True
        )
        if item_id is not None
    ]
    insert_contents(
        ItemKind.FRAGMENTS,
        [(item_id, place, content) for item_id, _, place, content, why in fresh if why is None],
    )
    changes = Changes(run.pk, ItemKind.FRAGMENTS)
    for _, fragment, _, content, reason in fresh:
        to = state if reason is None else ItemState.DROPPED
        item = Counted(fragment.epoch, None, 1, len(content), fragment.environment)
        changes.accept([item], to, reason=reason or "")
    arrived = [fragment for _, fragment, _, _, reason in fresh if reason is None]
    _admit_to_sampling(run, replay, arrived, changes, queued_before=held.queued_items)
    changes.write()
    announce(run.pk, "queue", "ledger")
    return FragmentReceipt(
        accepted=sum(reason is None for *_, reason in fresh),
        duplicates=len(fragments) - len(fresh),
        dropped=dict(Counter(str(reason) for *_, reason in fresh if reason is not None)),
        admission_remaining=_remaining(run, held, changes),
    )


def _remaining(run: Run, held: StoredAmounts, changes: Changes) -> int:
    """Return how many more fragments may be accepted after these changes."""
    arrived = changes.sequences(ACCEPTED, epoch=run.epoch)
    dropped = changes.sequences(ItemState.DROPPED, epoch=run.epoch)
    return admission(run, admitted=held.admitted + arrived - dropped, trained=held.trained)


def _accepting(run: Run) -> Run:
    """Return the run as of this transaction, if it accepts fragments."""
    found = first_row(Run, "id = %s", [run.pk])
    if found is None:
        raise RunNotAccepting(f"{run.name} no longer exists")
    if found.takes_groups:
        raise RunNotAccepting(f"{found.name} takes trajectory groups, not fragments")
    if found.status not in ACCEPTING or found.archived_at is not None:
        raise RunNotAccepting(f"{found.name} is {found.status} and accepts no data")
    return found


def _admit_to_sampling(
    run: Run,
    replay: ReplayConfig,
    arrived: list[Fragment],
    changes: Changes,
    *,
    queued_before: int,
) -> None:
    """Queue complete chunks, and evict chunks beyond the capacity."""
    if not arrived:
        return
    queued = len(arrived)
    if replay.fragments_per_chunk > 1:
        slots = {fragment.slot for fragment in arrived}
        length = replay.fragments_per_chunk
        queued = queue_whole_chunks(run, slots, length=length, changes=changes)
    environments = {fragment.environment for fragment in arrived}
    keep_within_capacity(
        run, changes, environments=environments, queued=queued_before, arriving=queued
    )


def _positions(
    fragments: Sequence[tuple[Fragment, Encoded]], reasons: list[DropReason | None]
) -> list[PayloadLocation]:
    """Write the bytes of accepted fragments; return the location of each fragment's bytes."""
    kept = [content for (_, content), why in zip(fragments, reasons, strict=True) if why is None]
    written = iter(write_contents(kept, codec=MSGPACK_CODEC))
    return [NOT_STORED if why is not None else next(written) for why in reasons]


def insert_fragments(
    run: Run,
    fragments: Sequence[tuple[Fragment, Encoded]],
    ends: list[tuple[ItemState, DropReason | None, PayloadLocation]],
    *,
    now: datetime,
    origins: Sequence[str] | None = None,
) -> list[int | None]:
    """Insert the rows of fragments; return the id of each row, or None if it is already stored.

    Args:
        run: The run.
        fragments: Fragments with their bytes.
        ends: State, reason and location of each fragment.
        now: Time of the request.
        origins: Run and id of each restored fragment there.
    """
    if not fragments:
        return []
    rows = [
        {
            "state": state,
            "drop_reason": reason or "",
            "epoch": fragment.epoch,
            "size_bytes": len(content),
            "slot": fragment.slot,
            "number": fragment.number,
            "contiguous": fragment.contiguous,
            "environment": fragment.environment,
            "worker": fragment.worker,
            "version_min": fragment.version_min,
            "version_max": fragment.version_max,
            "steps": fragment_rules.real_steps(fragment),
            "codec": place.codec,
            "crc32": place.crc32,
            "segment": place.segment,
            "object": place.object,
            "offset": place.offset,
            "origin": origin,
            "place": index,
        }
        for index, ((fragment, content), (state, reason, place), origin) in enumerate(
            zip(fragments, ends, origins or [""] * len(fragments), strict=True)
        )
    ]
    params = {"run": run.pk, "now": now, "rows": msgspec.json.encode(rows).decode()}
    with database.cursor() as cursor:
        found = cursor.execute(SQL["insert_fragments"], params, prepare=True).fetchall()
    fresh = {(slot, number): item_id for item_id, slot, number in found}
    return [fresh.pop((fragment.slot, fragment.number), None) for fragment, _ in fragments]


def queue_whole_chunks(run: Run, slots: Iterable[str], *, length: int, changes: Changes) -> int:
    """Queue complete chunks of slots, and drop fragments that can never be part of one.

    The caller has stored the new fragments as waiting. Returns the number of fragments queued.
    """
    affected = set(slots)
    # After writing the new rows, so that the second of two concurrent pushes sees all rows.
    lock_slots(run.pk, affected)
    waiting: dict[str, list[WaitingFragment]] = {}
    rows = FragmentChunk.objects.filter(
        run=run, epoch=run.epoch, slot__in=affected, state=ItemState.WAITING
    ).values_list("slot", "id", "number", "contiguous")
    for slot, item_id, number, contiguous in rows:
        fragment = WaitingFragment(id=item_id, number=number, contiguous=contiguous)
        waiting.setdefault(slot, []).append(fragment)
    found = [cut(fragments, length=length) for fragments in waiting.values()]
    chunks = [chunk for one in found for chunk in one.chunks]
    queued = _queue(chunks)
    changes.move(queued, ItemState.WAITING, ItemState.QUEUED)
    broken = [item_id for one in found for item_id in one.broken]
    evict(broken, reason=DropReason.INCOMPLETE, states=[ItemState.WAITING], changes=changes)
    return len(queued)


def _queue(chunks: list[list[int]]) -> list[Counted]:
    """Queue fragments; a chunk gets its newest fragment's id, so ids order by completion."""
    if not chunks:
        return []
    heads = [max(chunk) for chunk in chunks for _ in chunk]
    with connection.cursor() as cursor:
        cursor.execute(
            SQL["queue_chunks"], [[item_id for chunk in chunks for item_id in chunk], heads]
        )
        return [counted(*row) for row in cursor.fetchall()]
