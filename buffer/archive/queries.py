"""Parquet files of archives and of trajectory groups, and the jobs that write them."""

import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from buffer.archive.models import ArchiveJob, ArchiveVerb
from buffer.inspect.queries.group_contents import (
    GroupUnreadable,
    as_json,
    marks_of,
    opened,
    token_table,
)
from buffer.inspect.queries.group_lists import group_page
from buffer.inspect.rules import inspect_log as inspect_log_rules
from buffer.inspect.rules.sample_filter import SampleFilter
from buffer.inspect.schemas import GroupRow, MarkOfGroup
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import PayloadMissing
from runs.lifecycle.models import Run
from web.rules.errors import ApiError, InvalidData

FORMAT_VERSION: Final = "1"
# Readers load whole row groups; our writers stay below a quarter of this.
MAX_ROW_GROUP_BYTES: Final = 256 * 1024 * 1024
_PREFIX: Final = b"rolldeck."

_ITEM: Final = {
    "item_id": "int64",
    "state": "string",
    "drop_reason": "string",
    "received_at": "time",
    "epoch": "int64",
    "served_step": "int64",
    "position": "int64",
    "served_epoch": "int64",
    "served_policy_step": "int64",
}
_BYTES: Final = {"codec": "string", "crc32": "int64", "payload": "binary"}
COLUMNS: Final[dict[ItemKind, dict[str, str]]] = {
    ItemKind.GROUPS: _ITEM
    | {
        "policy_step": "int64",
        "env_id": "int64",
        "sequences": "int64",
        "tokens": "int64",
        "longest_tokens": "int64",
        "score_mean": "double",
        "score_min": "double",
        "score_max": "double",
        "score_std": "double",
        "producer": "string",
    }
    | _BYTES,
    ItemKind.FRAGMENTS: _ITEM
    | {
        "slot": "string",
        "number": "int64",
        "contiguous": "bool",
        "environment": "string",
        "worker": "string",
        "version_min": "int64",
        "version_max": "int64",
        "steps": "int64",
    }
    | _BYTES,
}


class ArchiveUnavailable(ApiError):
    """Archives need pyarrow, which is not installed."""

    status = 501
    code = "archives_unavailable"
    title = "Archives are not available"


class ArchiveUnreadable(InvalidData):
    """The file is not a valid archive; the message contains the reason."""


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise ArchiveUnavailable(
            "Parquet files need pyarrow, which is not installed: "
            "pip install 'rolldeck-server[archive]'"
        ) from None
    return pyarrow.parquet


def _schema(columns: Mapping[str, str]) -> Any:
    """Return the Arrow schema of columns, which have Arrow types, ``time`` or ``strings``."""
    import pyarrow as pa

    own = {"time": pa.timestamp("us", tz="UTC"), "strings": pa.list_(pa.string())}
    return pa.schema(
        [(name, own.get(word) or pa.type_for_alias(word)) for name, word in columns.items()]
    )


def _write_row_group(writer: Any, rows: Sequence[tuple[Any, ...]]) -> None:
    """Write one row group; values are in column order."""
    import pyarrow as pa

    arrays = [
        pa.array(list(column), type=field.type)
        for column, field in zip(zip(*rows, strict=True), writer.schema, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=writer.schema)
    writer.write_batch(batch, row_group_size=len(rows))


class _Sink(io.RawIOBase):
    """File object for pyarrow; buffers the bytes that have not been taken yet."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        content = bytes(part)
        self._parts.append(content)
        self._written += len(content)
        return len(content)

    def tell(self) -> int:
        return self._written

    def taken(self) -> bytes:
        content = b"".join(self._parts)
        self._parts.clear()
        return content


class ParquetStream:
    """A Parquet file in parts, each of them returned as soon as it is encoded.

    Raises:
        ArchiveUnavailable: If pyarrow is not installed.
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        """Start a file; `columns` maps names to the words of :func:`_schema`."""
        self._sink = _Sink()
        self._parquet = _parquet().ParquetWriter(self._sink, _schema(columns), compression="zstd")

    def write(self, rows: Sequence[tuple[Any, ...]]) -> bytes:
        _write_row_group(self._parquet, rows)
        return self._sink.taken()

    def close(self) -> bytes:
        self._parquet.close()
        return self._sink.taken()


class ArchiveWriter:
    """Writer of a new archive; the file appears, complete and durable, if the block succeeds."""

    def __init__(self, path: Path, *, kind: ItemKind, about: dict[str, Any]) -> None:
        self._path = path
        self._part = path.with_name(f".{path.name}.part")
        parquet = _parquet()
        facts = {"format": FORMAT_VERSION, "kind": str(kind)} | {
            name: msgspec.json.encode(value).decode() for name, value in about.items()
        }
        self._parquet = parquet.ParquetWriter(
            self._part,
            _schema(COLUMNS[kind]).with_metadata(
                {_PREFIX + name.encode(): value.encode() for name, value in facts.items()}
            ),
            compression=dict.fromkeys(COLUMNS[kind], "zstd"),
            compression_level=1,
            # Dictionaries and statistics would hold payloads in memory twice.
            use_dictionary=["state", "drop_reason", "codec"],
            write_statistics=[name for name in COLUMNS[kind] if name != "payload"],
            write_page_checksum=True,
        )

    def write(self, rows: Sequence[tuple[Any, ...]]) -> None:
        _write_row_group(self._parquet, rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._parquet.close()
            if error is None:
                with self._part.open("rb") as written:
                    os.fsync(written.fileno())
                self._part.replace(self._path)
        finally:
            self._part.unlink(missing_ok=True)


class ArchiveReader:
    """Reader of an archive, one row group at a time.

    Raises:
        ArchiveUnavailable: If pyarrow is missing.
        ArchiveUnreadable: If the file is not an archive of a supported version.
    """

    def __init__(self, path: Path) -> None:
        parquet = _parquet()
        self._errors = _errors()
        try:
            self._file = parquet.ParquetFile(path, page_checksum_verification=True)
        except FileNotFoundError:
            raise ArchiveUnreadable(f"file {path} does not exist") from None
        except self._errors as error:
            raise ArchiveUnreadable(f"{path.name} is not a valid Parquet file: {error}") from error
        facts = self._file.schema_arrow.metadata or {}
        self._facts = {
            name.removeprefix(_PREFIX).decode(): value
            for name, value in facts.items()
            if name.startswith(_PREFIX)
        }
        version = self._facts.get("format", b"").decode(errors="replace")
        if not version:
            raise ArchiveUnreadable(f"{path.name} is a Parquet file, but not a Rolldeck archive")
        if version != FORMAT_VERSION:
            raise ArchiveUnreadable(
                f"{path.name} has format version {version}; this server reads {FORMAT_VERSION}"
            )
        kind = self._facts.get("kind", b"").decode(errors="replace")
        if kind not in set(ItemKind):
            raise ArchiveUnreadable(f"{path.name} holds {kind!r} instead of groups or fragments")
        self.kind = ItemKind(kind)
        self._check_columns(path.name)
        metadata = self._file.metadata
        for index in range(metadata.num_row_groups):
            size = metadata.row_group(index).total_byte_size
            if size > MAX_ROW_GROUP_BYTES:
                raise ArchiveUnreadable(
                    f"{path.name}: row group {index} has {size} bytes,"
                    f" at most {MAX_ROW_GROUP_BYTES}"
                )

    def _check_columns(self, name: str) -> None:
        found = self._file.schema_arrow
        for field in _schema(COLUMNS[self.kind]):
            if field.name not in found.names:
                raise ArchiveUnreadable(f"{name} has no column {field.name!r}")
            if found.field(field.name).type != field.type:
                raise ArchiveUnreadable(
                    f"{name}: column {field.name!r} is {found.field(field.name).type},"
                    f" not {field.type}"
                )

    @property
    def items(self) -> int:
        return int(self._file.metadata.num_rows)

    def about(self, name: str) -> Any:
        """Return a metadata value of the archive.

        Raises:
            ArchiveUnreadable: If it is missing or not valid JSON.
        """
        try:
            return msgspec.json.decode(self._facts[name])
        except (KeyError, msgspec.MsgspecError) as error:
            raise ArchiveUnreadable(f"the archive has no valid metadata {name!r}") from error

    def has(self, name: str) -> bool:
        """Return whether the archive has this metadata; older archives lack some."""
        return name in self._facts

    def row_groups(self) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows of each row group.

        Raises:
            ArchiveUnreadable: If a row group is damaged.
        """
        columns = list(COLUMNS[self.kind])
        for index in range(self._file.metadata.num_row_groups):
            try:
                rows = self._file.read_row_group(index, columns=columns, use_threads=False)
                found: list[dict[str, Any]] = rows.to_pylist()
            except self._errors as error:
                raise ArchiveUnreadable(f"row group {index} is damaged: {error}") from error
            del rows
            yield found

    def close(self) -> None:
        self._file.close()


def _errors() -> tuple[type[Exception], ...]:
    import pyarrow as pa

    return (pa.ArrowException, OSError, UnicodeDecodeError)


PAGE: Final = 50
ROW_GROUP_BYTES: Final = 16 << 20
ROW_GROUP_ROWS: Final = 500
SEQUENCE_COLUMNS: Final = {
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
    "tags": "strings",
    "note": "string",
    "missing": "string",
    "group": "large_string",
}
_OF_MARK: Final = frozenset({"tags", "note"})
Marked = tuple[GroupRow, MarkOfGroup | None]


def rows(run_id: int, wanted: SampleFilter, *, limit: int, now: datetime) -> Iterator[Marked]:
    """Yield up to `limit` groups of a list with their marks.

    Groups that arrive during the export may be included.
    """
    after, left = None, limit
    while left > 0:
        page = group_page([run_id], wanted, limit=min(PAGE, left), now=now, after=after)
        marks = marks_of([row.id for row in page.rows])
        yield from ((row, marks.get(row.id)) for row in page.rows)
        left -= len(page.rows)
        if page.next is None:
            return
        after = page.next


def json_lines(run: Run, wanted: SampleFilter, *, limit: int, now: datetime) -> Iterator[bytes]:
    """Yield a line of JSON per group: its metadata, and its content as ``group``."""
    for row, mark in rows(run.pk, wanted, limit=limit, now=now):
        group, missing = _content(row)
        known = {name: _plain(_known(row, mark, name)) for name in SEQUENCE_COLUMNS}
        known |= {"missing": missing}
        line = known | {"group": msgspec.Raw(group or b"null")}
        yield msgspec.json.encode(line) + b"\n"


def parquet(run: Run, wanted: SampleFilter, *, limit: int, now: datetime) -> Iterator[bytes]:
    """Yield the parts of a Parquet file with one row per group.

    Raises:
        ArchiveUnavailable: If pyarrow is not installed.
    """
    stream = ParquetStream(SEQUENCE_COLUMNS)
    found = rows(run.pk, wanted, limit=limit, now=now)
    return _parquet_parts(stream, found)


def _parquet_parts(stream: ParquetStream, found: Iterator[Marked]) -> Iterator[bytes]:
    while some := list(islice(found, ROW_GROUP_ROWS)):
        records: list[tuple[Any, ...]] = []
        size_bytes = 0
        for row, mark in some:
            group, missing = _content(row)
            known = [_known(row, mark, name) for name in list(SEQUENCE_COLUMNS)[:-2]]
            text = None if group is None else group.decode()
            records.append((*known, missing, text))
            size_bytes += len(group or b"")
            if size_bytes >= ROW_GROUP_BYTES:
                yield stream.write(records)
                records, size_bytes = [], 0
        if records:
            yield stream.write(records)
    yield stream.close()


def inspect_log(run: Run, wanted: SampleFilter, *, limit: int, now: datetime) -> Iterator[bytes]:
    """Yield the parts of a log for Inspect, with one sample per sequence.

    A group without readable content is a sample with an error.
    """
    spec = {
        "created": run.created_at.isoformat(timespec="seconds"),
        "task": run.name,
        "dataset": {"name": run.name},
        "model": run.name,
        "config": {},
    }
    head = {"version": inspect_log_rules.VERSION, "status": "success", "eval": spec}
    yield msgspec.json.encode(head)[:-1] + b',"samples":['
    table, count, scores = token_table(run), 0, []
    pieces = None if table is None else table.pieces
    for row, mark in rows(run.pk, wanted, limit=limit, now=now):
        known = ((name, _known(row, mark, name)) for name in inspect_log_rules.METADATA)
        metadata = {name: value for name, value in known if value not in (None, "", [])}
        try:
            group = opened(row)
        except (PayloadMissing, GroupUnreadable) as error:
            made = iter([inspect_log_rules.unreadable(row.id, metadata, str(error))])
        else:
            version = f"{run.name}@{row.epoch}.{row.policy_step}"
            made = inspect_log_rules.samples(group, row.id, metadata, model=version, pieces=pieces)
        for sample in made:
            yield (b"," if count else b"") + msgspec.json.encode(sample)
            count += 1
            if "score" in sample.get("scores", {}):
                scores.append(sample["scores"]["score"]["value"])
    mean = {"mean": {"name": "mean", "value": fmean(scores)}} if scores else {}
    results = {
        "total_samples": count,
        "completed_samples": count,
        "scores": [{"name": "score", "scorer": "score", "metrics": mean}] if scores else [],
    }
    yield b'],"results":' + msgspec.json.encode(results) + b"}"


def _known(row: GroupRow, mark: MarkOfGroup | None, name: str) -> Any:
    if name in _OF_MARK and mark is None:
        return [] if name == "tags" else ""
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


def archive_jobs(*, run_id: int, before: int | None, limit: int) -> list[ArchiveJob]:
    """Return the archive jobs of a run, newest first, older than the job `before`."""
    found = ArchiveJob.objects.filter(run_id=run_id)
    if before is not None:
        found = found.filter(id__lt=before)
    return list(found.order_by("-id")[:limit])


def run_of_archive(archive_id: int) -> str | None:
    """Return the name of the run from which an archive was exported, or None."""
    found = ArchiveJob.objects.filter(pk=archive_id, verb=ArchiveVerb.EXPORT)
    return found.values_list("run__name", flat=True).first()
