"""Groups of an archive file, read in parts.

The columns of an archive are in docs/reference/archive.md. It needs pyarrow.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rolldeck.groups import GroupArrays, read
from rolldeck.wire import InvalidMessage

FORMAT: Final = "1"
GROUPS_AT_ONCE: Final = 64
FACTS: Final = (
    "item_id",
    "state",
    "drop_reason",
    "received_at",
    "served_step",
    "env_id",
    "epoch",
    "policy_step",
)
"""Columns about a group."""
COLUMNS: Final = (*FACTS, "codec", "crc32", "payload")
Row = dict[str, Any]


class ArchiveUnreadable(ValueError):
    """The file is no archive of groups; the message has the reason."""


class ArchivedGroup(NamedTuple):
    """A group with its row of the archive."""

    place: str
    """File and item, for messages."""
    row: Row
    """Columns of the archive, with `payload`."""
    group: GroupArrays
    others: dict[str, Any]
    """Decoded fields that are not arrays."""


class _Marks(msgspec.Struct, frozen=True):
    groups: list["_Mark"] = []


class _Mark(msgspec.Struct, frozen=True):
    item_id: int
    label: int | None = None


def groups_in(
    archive: Path, row_groups: Sequence[int] | None = None, *, label: int | None = None
) -> Iterator[list[ArchivedGroup]]:
    """Yield the groups of an archive, up to 64 at a time.

    Args:
        archive: The file.
        row_groups: Numbers of the Parquet row groups to read; None for all.
        label: Label of the groups to read, 1 to 9; None for all groups.

    Raises:
        ArchiveUnreadable: If the archive is damaged, cut short, holds fragments, or has no group
            with the label.
        OSError: If the file cannot be read.
    """
    with _opened(archive) as file:
        items = None if label is None else _labelled(archive, file, label)
        for batch in file.iter_batches(
            batch_size=GROUPS_AT_ONCE, row_groups=row_groups, columns=[*COLUMNS]
        ):
            rows = batch.to_pylist()
            yield [_group(archive, row) for row in rows if items is None or row["item_id"] in items]


def row_groups_of(archive: Path) -> list[tuple[int, int]]:
    """Return the number of groups, and of bytes in memory, of each Parquet row group.

    Raises:
        ArchiveUnreadable: If the archive is cut short, or holds fragments.
        OSError: If the file cannot be read.
    """
    with _opened(archive) as file:
        parts = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        return [(part.num_rows, part.total_byte_size) for part in parts]


@contextmanager
def _opened(archive: Path) -> Iterator[Any]:
    try:
        with pq.ParquetFile(archive) as file:
            _check(archive, file.schema_arrow.metadata or {})
            yield file
    except pa.ArrowException as error:
        raise ArchiveUnreadable(f"{archive} is not a complete Parquet file: {error}") from error


def _check(archive: Path, facts: Mapping[bytes, bytes]) -> None:
    found = facts.get(b"rolldeck.format", b"").decode()
    if found != FORMAT:
        what = f"has the archive format {found!r}, not {FORMAT!r}" if found else "is no archive"
        raise ArchiveUnreadable(f"{archive} {what}")
    kind = facts.get(b"rolldeck.kind", b"").decode()
    if kind != "groups":
        raise ArchiveUnreadable(f"{archive} holds {kind}; only groups have sequences")


def _labelled(archive: Path, file: Any, label: int) -> frozenset[int]:
    """Return the items of the archived run with a label."""
    stored = (file.schema_arrow.metadata or {}).get(b"rolldeck.marks", b"{}")
    try:
        marks = msgspec.json.decode(stored, type=_Marks).groups
    except msgspec.DecodeError as error:
        raise ArchiveUnreadable(f"{archive}: rolldeck.marks: {error}") from error
    items = frozenset(mark.item_id for mark in marks if mark.label == label)
    if not items:
        used = ", ".join(
            str(label) for label in sorted({mark.label for mark in marks if mark.label})
        )
        known = f"its labels are {used}" if used else "it has no labels"
        raise ArchiveUnreadable(f"{archive} has no group with label {label}; {known}")
    return items


def _group(archive: Path, row: Row) -> ArchivedGroup:
    place = f"{archive}, item {row['item_id']}"
    if zlib.crc32(row["payload"]) != row["crc32"]:
        raise ArchiveUnreadable(f"{place}: the payload does not match its checksum")
    try:
        group = read(row["payload"], row["codec"]).without_unusable_rows()
        others = {name: msgspec.json.decode(text) for name, text in group.json.items()}
    except (InvalidMessage, msgspec.DecodeError) as error:
        raise ArchiveUnreadable(f"{place}: {error}") from error
    return ArchivedGroup(place, row, group, others)
