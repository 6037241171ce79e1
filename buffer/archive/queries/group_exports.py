"""Streamed exports of the groups that match a filter, in bounded memory."""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from buffer.archive.queries.parquet import ParquetStream
from buffer.inspect.queries.group_contents import GroupUnreadable, as_json
from buffer.inspect.queries.group_lists import GroupRow, group_page
from buffer.inspect.queries.marks import marks_of
from buffer.inspect.rules.group_filter import GroupFilter
from buffer.inspect.schemas import MarkOfGroup
from buffer.payloads.services.contents import PayloadMissing
from runs.lifecycle.models import Run

PAGE: Final = 50
ROW_GROUP_BYTES: Final = 16 << 20
ROW_GROUP_ROWS: Final = 500
COLUMNS: Final = {
    "id": "int64",
    "state": "string",
    "drop_reason": "string",
    "env_id": "int64",
    "lesson": "string",
    "worker": "string",
    "producer": "string",
    "epoch": "int64",
    "policy_step": "int64",
    "step": "int64",
    "received_at": "time",
    "sequences": "int64",
    "tokens": "int64",
    "longest_tokens": "int64",
    "score_mean": "double",
    "score_min": "double",
    "score_max": "double",
    "truncated": "int64",
    "duplicates": "int64",
    "prompt": "string",
    "label": "int64",
    "note": "string",
    "missing": "string",
    "group": "large_string",
}
_OF_MARK: Final = frozenset({"label", "note"})
Marked = tuple[GroupRow, MarkOfGroup | None]


def rows(run_id: int, group_filter: GroupFilter, *, limit: int) -> Iterator[Marked]:
    """Yield up to `limit` groups of a list with their marks.

    Groups that arrive during the export may be included.
    """
    after, left = None, limit
    while left > 0:
        page = group_page(run_id, group_filter, limit=min(PAGE, left), after=after)
        marks = marks_of([row.id for row in page.rows])
        yield from ((row, marks.get(row.id)) for row in page.rows)
        left -= len(page.rows)
        if page.next is None:
            return
        after = page.next


def json_lines(run: Run, group_filter: GroupFilter, *, limit: int) -> Iterator[bytes]:
    """Yield a line of JSON per group: its metadata, and its content as ``group``."""
    for row, mark in rows(run.pk, group_filter, limit=limit):
        group, missing = _content(row)
        known = {name: _plain(_known(row, mark, name)) for name in COLUMNS}
        known |= {"missing": missing}
        line = known | {"group": msgspec.Raw(group or b"null")}
        yield msgspec.json.encode(line) + b"\n"


def parquet(run: Run, group_filter: GroupFilter, *, limit: int) -> Iterator[bytes]:
    """Yield the parts of a Parquet file with one row per group.

    Raises:
        ArchiveUnavailable: If pyarrow is not installed.
    """
    stream = ParquetStream(COLUMNS)
    found = rows(run.pk, group_filter, limit=limit)
    return _parquet_parts(stream, found)


def _parquet_parts(stream: ParquetStream, found: Iterator[Marked]) -> Iterator[bytes]:
    while some := list(islice(found, ROW_GROUP_ROWS)):
        records: list[tuple[Any, ...]] = []
        size_bytes = 0
        for row, mark in some:
            group, missing = _content(row)
            known = [_known(row, mark, name) for name in list(COLUMNS)[:-2]]
            text = None if group is None else group.decode()
            records.append((*known, missing, text))
            size_bytes += len(group or b"")
            if size_bytes >= ROW_GROUP_BYTES:
                yield stream.write(records)
                records, size_bytes = [], 0
        if records:
            yield stream.write(records)
    yield stream.close()


def _known(row: GroupRow, mark: MarkOfGroup | None, name: str) -> Any:
    if name == "note" and mark is None:
        return ""
    return getattr(mark if name in _OF_MARK else row, name, None)


def _content(row: GroupRow) -> tuple[bytes | None, str]:
    """Return a group as one line of JSON, or None and the reason."""
    try:
        content = as_json(row)
    except (PayloadMissing, GroupUnreadable) as error:
        return None, str(error)
    return (msgspec.json.format(content, indent=-1) if b"\n" in content else content), ""


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
