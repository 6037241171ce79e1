"""Write out the groups that a filter finds, a few at a time, so that any number of them fits."""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from buffer.core.group_filter import GroupFilter, Place
from buffer.selectors.group_contents import GroupUnreadable, as_json
from buffer.selectors.group_lists import GroupRow, group_page
from buffer.storage import PayloadMissing
from buffer.storage.parquet_stream import ParquetStream

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
    "missing": "string",
    "group": "large_string",
}


def rows(run_id: int, wanted: GroupFilter, *, limit: int) -> Iterator[GroupRow]:
    """Yield the groups of a list, at most `limit`; what comes in meanwhile may be among them."""
    after, left = None, limit
    while left > 0:
        page = group_page(run_id, wanted, limit=min(PAGE, left), after=after)
        yield from page.rows
        left -= len(page.rows)
        if not page.next:
            return
        after = Place.parse(page.next, sort=wanted.sort)


def json_lines(run_id: int, wanted: GroupFilter, *, limit: int) -> Iterator[bytes]:
    """Yield a line of JSON for each group: what is known of it, and under ``group`` its content."""
    for row in rows(run_id, wanted, limit=limit):
        group, missing = _content(row)
        known = {name: _plain(getattr(row, name, None)) for name in COLUMNS}
        line = known | {"missing": missing, "group": msgspec.Raw(group or b"null")}
        yield msgspec.json.encode(line) + b"\n"


def parquet(run_id: int, wanted: GroupFilter, *, limit: int) -> Iterator[bytes]:
    """Yield the parts of a Parquet file with a row for each group.

    Raises:
        ArchiveUnavailable: If pyarrow is not installed.
    """
    stream = ParquetStream(COLUMNS)
    return _parquet_parts(stream, rows(run_id, wanted, limit=limit))


def _parquet_parts(stream: ParquetStream, found: Iterator[GroupRow]) -> Iterator[bytes]:
    while some := list(islice(found, ROW_GROUP_ROWS)):
        records: list[tuple[Any, ...]] = []
        size_bytes = 0
        for row in some:
            group, missing = _content(row)
            known = [getattr(row, name, None) for name in list(COLUMNS)[:-2]]
            records.append((*known, missing, None if group is None else group.decode()))
            size_bytes += len(group or b"")
            if size_bytes >= ROW_GROUP_BYTES:
                yield stream.write(records)
                records, size_bytes = [], 0
        if records:
            yield stream.write(records)
    yield stream.close()


def _content(row: GroupRow) -> tuple[bytes | None, str]:
    """Return a group as one line of JSON, or None and why not."""
    try:
        content = as_json(row)
    except (PayloadMissing, GroupUnreadable) as error:
        return None, str(error)
    return (msgspec.json.format(content, indent=-1) if b"\n" in content else content), ""


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
