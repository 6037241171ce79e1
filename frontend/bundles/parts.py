"""Write a run's record as the parts of a bundle, each bounded, one at a time in memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from buffer.archive.queries import rows
from buffer.inspect.queries import group_contents
from buffer.inspect.queries.group_contents import GroupUnreadable
from buffer.inspect.rules.group_filter import GroupFilter
from buffer.inspect.rules.sequence_views import (
    Conversation,
    Pieces,
    SequenceSummary,
    SequenceWindow,
    conversation,
    summaries,
    window,
)
from buffer.inspect.schemas import GroupRow
from buffer.items import queries as items_queries
from buffer.items.queries import ledger
from buffer.items.rules.states import ItemKind
from buffer.items.schemas import KindLedger
from buffer.payloads.services.contents import PayloadMissing
from frontend.bundles import page
from rolldeck.groups import GroupArrays
from rollouts.metrics.queries.metrics import metric_names
from rollouts.metrics.queries.series import SeriesRange, lines
from runs.lifecycle import queries
from runs.lifecycle.models import Run
from runs.lifecycle.queries import run_detail
from runs.lifecycle.schemas import Event, RunDetail

GROUPS: Final = 20
GROUPS_AT_MOST: Final = 500
METRICS_AT_MOST: Final = 500
POINTS: Final = 300
"""Buckets of a line; the minimum and maximum of each are kept."""
LINES_AT_ONCE: Final = 25
EVENTS: Final = 200
SEQUENCES: Final = 64
TOKENS: Final = 4096
"""Maximum tokens of a sequence."""
CHARACTERS: Final = (20_000, 2_000, 200)
"""Maximum characters of a message; the smaller limits apply to large conversations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Size limits of a bundle, in bytes of JSON."""

    group_bytes: int = 1 << 20
    """Limit of a group; sequences beyond it are only summarized."""
    groups_bytes: int = 64 << 20
    """Limit of all groups; further ones are left out."""


USUAL: Final = Bounds()


class LedgerPart(KindLedger, frozen=True, kw_only=True):
    """Counts of one kind's items by state."""

    kind: str
    environment: str
    """Empty for the whole run."""


class NotesPart(Struct, frozen=True, kw_only=True):
    """The run's notes."""

    text: str
    """Markdown source; the page shows it as text."""
    author: str
    at: datetime


class VocabularyPart(Struct, frozen=True, kw_only=True):
    """A label of the run, with its number of groups."""

    kind: str
    name: str
    groups: int


class RunPart(Struct, frozen=True, kw_only=True):
    """The run's state, configuration and history."""

    written_at: datetime
    run: RunDetail
    ledgers: list[LedgerPart]
    events: list[Event]
    """The newest events, newest first."""
    metrics: int
    """Number of metrics with samples; the bundle contains the first ones."""
    notes: NotesPart | None
    marks: list[VocabularyPart]
    """Labels of its groups."""


class SequencePart(Struct, frozen=True, kw_only=True):
    """A sequence with the beginning of its content."""

    summary: SequenceSummary
    conversation: Conversation | None
    window: SequenceWindow | None
    """Both are null if the group exceeds its size limit."""


class GroupPart(Struct, frozen=True, kw_only=True):
    """A group with its content."""

    id: int
    environment: str
    lesson: str
    state: str
    drop_reason: str
    received_at: datetime
    policy_step: int | None
    step: int | None
    tokens: int
    mark: list[str]
    """Label of the group; empty if it has none."""
    note: str
    missing: str
    """Reason why the content is missing; empty if it is present."""
    sequences: list[SequencePart]
    total_sequences: int


class EndPart(Struct, frozen=True, kw_only=True):
    """The last part; without it the file is incomplete."""

    metrics: int
    groups: int
    is_cut: bool
    """Whether further groups were left out because of the size limit."""


def bundle(
    run: Run, group_filter: GroupFilter, *, groups: int, now: datetime, bounds: Bounds = USUAL
) -> Iterator[bytes]:
    """Yield the parts of a run's page, which opens without a server.

    Args:
        run: The run.
        group_filter: Filter of the groups; the first `groups` of the list are included.
        groups: Maximum number of groups.
        now: Current time.
        bounds: Size limits.
    """
    yield page.head(title=f"{run.name} · Rolldeck")
    about = about_run(run, now=now)
    yield page.block("run", about)
    drawn = 0
    for block in metric_blocks(run):
        drawn += 1
        yield block
    written, size_bytes, is_cut = 0, 0, False
    for block in group_blocks(run, group_filter, groups=groups, bounds=bounds):
        if size_bytes + len(block) > bounds.groups_bytes:
            is_cut = True
            break
        written, size_bytes = written + 1, size_bytes + len(block)
        yield block
    yield page.block("end", EndPart(metrics=drawn, groups=written, is_cut=is_cut))
    yield page.foot()


def about_run(run: Run, *, now: datetime) -> RunPart:
    """Return a run's state, configuration, ledger and events."""
    whole = [(kind.value, "", items_queries.kind_ledger(ledger(run.pk, kind))) for kind in ItemKind]
    names = group_contents.environment_names(run.pk)
    parts = [
        (one.kind, one.environment or _environment(one.env_id, names), one)
        for one in items_queries.ledgers_by_environment(run.pk)
    ]
    return RunPart(
        written_at=now,
        run=run_detail(run),
        ledgers=[_ledger(*side) for side in [*whole, *parts] if side[2].accepted],
        events=queries.events(run_id=run.pk, limit=EVENTS),
        metrics=len(metric_names(run.pk).results),
        notes=_notes(run.pk),
        marks=_marks(run.pk),
    )


def _notes(run_id: int) -> NotesPart | None:
    newest = queries.newest_note(run_id)
    if newest is None or not newest.text:
        return None
    return NotesPart(text=newest.text, author=newest.author, at=newest.at)


def _marks(run_id: int) -> list[VocabularyPart]:
    return [
        VocabularyPart(kind="label", name=f"{row.label} {row.name}".rstrip(), groups=row.groups)
        for row in group_contents.vocabulary(run_id).labels
        if row.groups
    ]


def _environment(env_id: int | None, names: dict[int, str]) -> str:
    return "no environment" if env_id is None else names.get(env_id, f"environment {env_id}")


def _ledger(kind: str, environment: str, of: KindLedger) -> LedgerPart:
    counts = {name: getattr(of, name) for name in KindLedger.__struct_fields__}
    return LedgerPart(kind=kind, environment=environment, **counts)


def metric_blocks(run: Run) -> Iterator[bytes]:
    """Yield a line over all steps for each of a run's first metrics."""
    first = metric_names(run.pk).results[:METRICS_AT_MOST]
    for begin in range(0, len(first), LINES_AT_ONCE):
        names, spec = (
            first[begin : begin + LINES_AT_ONCE],
            SeriesRange(axis="step", at_most=POINTS),
        )
        for line in lines([(run.name, run.pk)], names, spec):
            yield page.block("metric", line)


def group_blocks(
    run: Run, group_filter: GroupFilter, *, groups: int, bounds: Bounds
) -> Iterator[bytes]:
    """Yield the first groups of a list with their content."""
    if not groups:
        return
    names = group_contents.environment_names(run.pk)
    labels = {row.label: row.name for row in group_contents.vocabulary(run.pk).labels}
    pieces = group_contents.pieces_of(run)
    for row, mark in rows(run.pk, group_filter, limit=groups):
        part = group_part(row, environments=names, pieces=pieces, most_bytes=bounds.group_bytes)
        if mark is not None:
            label = (
                [] if mark.label is None else [f"label {mark.label} {labels[mark.label]}".rstrip()]
            )
            part = msgspec.structs.replace(part, mark=label, note=mark.note)
        yield page.block("group", part)


def group_part(
    row: GroupRow, *, environments: dict[int, str], pieces: Pieces | None, most_bytes: int
) -> GroupPart:
    """Return a group with as much of its content as the limit permits."""
    sequences: list[SequencePart] = []
    missing = ""
    try:
        sequences = _sequences(group_contents.opened(row), pieces, most_bytes)
    except (PayloadMissing, GroupUnreadable) as error:
        missing = str(error)
    return GroupPart(
        id=row.id,
        environment=_environment(row.env_id, environments),
        lesson=row.lesson,
        state=row.state,
        drop_reason=row.drop_reason,
        received_at=row.received_at,
        policy_step=row.policy_step,
        step=row.step,
        tokens=row.tokens,
        mark=[],
        note="",
        missing=missing,
        sequences=sequences,
        total_sequences=row.sequences,
    )


def _sequences(opened: GroupArrays, pieces: Pieces | None, most_bytes: int) -> list[SequencePart]:
    found, left_bytes = [], most_bytes
    for summary in summaries(opened, has_text=pieces is not None).results[:SEQUENCES]:
        part = SequencePart(
            summary=summary,
            conversation=_conversation(opened, summary.index, most_bytes // 4),
            window=window(opened, summary.index, start=0, count=TOKENS, pieces=pieces),
        )
        left_bytes -= _size(part)
        if left_bytes < 0:
            part = SequencePart(summary=summary, conversation=None, window=None)
        found.append(part)
    return found


def _conversation(opened: GroupArrays, index: int, most_bytes: int) -> Conversation:
    for characters in CHARACTERS:
        found = _without_pictures(conversation(opened, index, characters=characters))
        if _size(found) <= most_bytes:
            break
    return found


def _without_pictures(found: Conversation) -> Conversation:
    """Remove the pictures' data; their number remains visible."""
    replace = msgspec.structs.replace
    messages = [
        replace(
            message,
            parts=[
                replace(part, picture=part.picture and replace(part.picture, data=None))
                for part in message.parts
            ],
        )
        for message in found.results
    ]
    pictures = [replace(one, data=None) for one in found.pictures]
    return msgspec.structs.replace(found, results=messages, pictures=pictures)


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))
