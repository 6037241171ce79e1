"""Take fragments in."""

from collections import Counter
from datetime import datetime
from typing import Final

import msgspec
from django.db import transaction

from buffer import selectors, storage
from buffer.core import fragment_rules
from buffer.core.fates import DropReason, Fate, ItemKind
from buffer.services.groups import RunNotAccepting
from buffer.services.tallies import Changes, Counted
from rolldeck.wire import SCHEMA_VERSION, Fragment, FragmentPush, FragmentReceipt
from runs import live
from runs.core.lifecycle import ACCEPTING
from runs.models import Run, RunKind

_INSERT: Final = """
    INSERT INTO buffer_fragmentchunk
        (run_id, state, drop_reason, epoch, received_at, size_bytes, slot, number, contiguous,
         environment, worker, version_min, version_max, steps)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (run_id, slot, number) DO NOTHING RETURNING id"""
_decode_push = msgspec.msgpack.Decoder(FragmentPush).decode
_decode_fragment = msgspec.msgpack.Decoder(Fragment).decode


class InvalidFragments(ValueError):
    """A push is malformed; `field` names the place."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


def decode_push(body: bytes) -> list[tuple[Fragment, bytes]]:
    """Return the fragments of a push with their bytes, each checked.

    Raises:
        InvalidFragments: At the first thing that is not what :mod:`rolldeck.wire` says.
    """
    try:
        push = _decode_push(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise _invalid("", error) from error
    if push.schema != SCHEMA_VERSION:
        raise InvalidFragments("schema", f"version {push.schema} is not {SCHEMA_VERSION}")
    return [(_decode(content, index), content) for index, content in enumerate(push.fragments)]


def _decode(content: bytes, index: int) -> Fragment:
    place = f"fragments[{index}]"
    try:
        fragment = _decode_fragment(content)
        fragment_rules.check(fragment)
    except fragment_rules.BrokenFragment as error:
        raise InvalidFragments(f"{place}.{error.field}", error.message) from error
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise _invalid(place, error) from error
    if max(fragment.number >> 31, fragment.epoch, fragment.version_max) > (1 << 31) - 1:
        raise InvalidFragments(place, "holds a number that is too large")
    return fragment


def _invalid(place: str, error: Exception) -> InvalidFragments:
    message, _, path = str(error).partition(" - at ")
    steps = path.strip("`").removeprefix("$").lstrip(".")
    return InvalidFragments(".".join(part for part in (place, steps) if part) or "body", message)


@transaction.atomic
def accept_fragments(
    *, run: Run, fragments: list[tuple[Fragment, bytes]], now: datetime
) -> FragmentReceipt:
    """Store the fragments of one push; those that came before are counted as duplicates.

    What cannot train the run's policy any more keeps its row, dropped and without bytes.

    Raises:
        RunNotAccepting: If the run has ended or takes groups.
    """
    run = Run.objects.get(pk=run.pk)
    if run.kind != RunKind.FLEET:
        raise RunNotAccepting(f"{run.name} takes trajectory groups, not fragments")
    if run.status not in ACCEPTING or run.archived_at is not None:
        raise RunNotAccepting(f"{run.name} is {run.status} and takes no data")
    reasons = [
        fragment_rules.drop_reason(
            fragment,
            epoch=run.epoch,
            policy_step=run.policy_step,
            max_staleness=run.max_staleness,
        )
        for fragment, _ in fragments
    ]
    ids = _insert(run, fragments, reasons, now=now)
    fresh = [
        (item_id, fragment, content, reason)
        for item_id, (fragment, content), reason in zip(ids, fragments, reasons, strict=True)
        if item_id is not None
    ]
    storage.insert_contents(
        ItemKind.FRAGMENTS,
        [(item_id, content) for item_id, _, content, reason in fresh if reason is None],
        codec=storage.MSGPACK_CODEC,
    )
    changes = Changes(run.pk, ItemKind.FRAGMENTS)
    for _, fragment, _, reason in fresh:
        fate = Fate.QUEUED if reason is None else Fate.DROPPED
        changes.accept([Counted(fragment.epoch, None, 1)], fate, reason=reason or "")
    changes.write()
    live.announce(run.pk, "queue", "ledger")
    return FragmentReceipt(
        accepted=sum(reason is None for _, _, _, reason in fresh),
        duplicates=len(fragments) - len(fresh),
        dropped=dict(Counter(str(reason) for _, _, _, reason in fresh if reason is not None)),
        admission_remaining=selectors.admission_remaining(run.pk),
    )


def _insert(
    run: Run,
    fragments: list[tuple[Fragment, bytes]],
    reasons: list[DropReason | None],
    *,
    now: datetime,
) -> list[int | None]:
    """Store the metadata; return each row's id, or None where it was there already."""
    rows = [
        (
            run.pk,
            str(Fate.QUEUED if reason is None else Fate.DROPPED),
            reason or "",
            fragment.epoch,
            now,
            len(content),
            fragment.slot,
            fragment.number,
            fragment.contiguous,
            fragment.environment,
            fragment.worker,
            fragment.version_min,
            fragment.version_max,
            fragment.steps,
        )
        for (fragment, content), reason in zip(fragments, reasons, strict=True)
    ]
    # Rows in one order, so that two pushes of the same fragments do not wait in a circle.
    order = sorted(range(len(rows)), key=lambda place: rows[place][6:8])
    ids: list[int | None] = [None] * len(rows)
    with storage.cursor() as cursor:
        cursor.executemany(_INSERT, [rows[place] for place in order], returning=True)
        for place in order:
            found = cursor.fetchone()
            ids[place] = None if found is None else found[0]
            cursor.nextset()
    return ids
