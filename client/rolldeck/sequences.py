"""Write the groups of an archive as a Parquet table with one typed row for each sequence.

    rolldeck sequences my-run.parquet --out sequences.parquet

The columns are in docs/reference/archive.md. Values equal those that were pushed: integers as
int32, numbers as float64. It needs pyarrow.
"""

import argparse
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rolldeck.groups import GroupArrays, read
from rolldeck.wire import InvalidMessage

FORMAT: Final = "1"
GROUPS_AT_ONCE: Final = 64
INTEGERS: Final = ("tokens", "masks")
NUMBERS: Final = ("advantages", "ref_logprobs", "inference_logprobs")
KEPT: Final = ("item_id", "state", "drop_reason", "received_at", "served_step", "env_id")
"""Columns of the archive that each sequence of a group repeats."""
PLAIN: Final = frozenset({"role", "content"})
MESSAGES: Final = pa.list_(
    pa.struct([("role", pa.string()), ("content", pa.string()), ("json", pa.string())])
)
VERSIONS: Final = pa.list_(
    pa.struct([("epoch", pa.int64()), ("policy_step", pa.int64()), ("tokens", pa.int32())])
)
SCHEMA: Final = pa.schema(
    [
        ("item_id", pa.int64()),
        ("sequence", pa.int32()),
        ("state", pa.string()),
        ("drop_reason", pa.string()),
        ("received_at", pa.timestamp("us", tz="UTC")),
        ("served_step", pa.int64()),
        ("env_id", pa.int64()),
        ("epoch", pa.int64()),
        ("policy_step", pa.int64()),
        ("policy_versions", VERSIONS),
        ("score", pa.float64()),
        *((name, pa.list_(pa.int32())) for name in INTEGERS),
        *((name, pa.list_(pa.float64())) for name in NUMBERS),
        ("messages", MESSAGES),
        ("overrides", pa.string()),
        ("group", pa.string()),
    ]
)
BY_SEQUENCE: Final = ("messages", "overrides", "policy_versions")
"""Fields of a group in JSON with one entry for each sequence."""
Row = dict[str, Any]


class ArchiveUnreadable(ValueError):
    """The file is no archive of groups; the message has the reason."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 for success, 1 if the archive cannot be read."""
    parser = argparse.ArgumentParser(
        prog="rolldeck sequences",
        description="Write an archive of groups as a Parquet table of sequences.",
    )
    parser.add_argument("archive", type=Path, metavar="ARCHIVE", help="file of an archived run")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="output file")
    args = parser.parse_args(argv)
    try:
        sequences = write_sequences(args.archive, args.out)
    except (ArchiveUnreadable, OSError) as error:
        print(f"rolldeck sequences: {error}", file=sys.stderr)
        return 1
    print(f"{args.out}: {sequences:,} sequences")
    return 0


def write_sequences(archive: Path, target: Path) -> int:
    """Write the sequences of an archive, and return their number.

    The file appears once it is complete. Memory is bounded by 64 groups.

    Raises:
        ArchiveUnreadable: If the archive is damaged, cut short, or holds fragments.
        OSError: If a file cannot be read or written.
    """
    part = target.with_name(f".{target.name}.part")
    count = 0
    try:
        with pq.ParquetWriter(part, SCHEMA, compression="zstd") as writer:
            for rows in _batches(archive):
                writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
                count += len(rows)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return count


def _batches(archive: Path) -> Iterator[list[Row]]:
    """Yield the sequences of a few groups at a time."""
    try:
        with pq.ParquetFile(archive) as file:
            _check(archive, file.schema_arrow.metadata or {})
            columns = [*KEPT, "epoch", "policy_step", "codec", "crc32", "payload"]
            for batch in file.iter_batches(batch_size=GROUPS_AT_ONCE, columns=columns):
                yield [row for stored in batch.to_pylist() for row in _sequences(archive, stored)]
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


def _sequences(archive: Path, stored: Row) -> Iterator[Row]:
    place = f"{archive}, item {stored['item_id']}"
    if zlib.crc32(stored["payload"]) != stored["crc32"]:
        raise ArchiveUnreadable(f"{place}: the payload does not match its checksum")
    try:
        group = read(stored["payload"], stored["codec"]).without_empty_rows()
        lists = {name: _of_rows(group, name) for name in (*INTEGERS, *NUMBERS)}
        others = {name: msgspec.json.decode(text) for name, text in group.json.items()}
    except (InvalidMessage, msgspec.DecodeError) as error:
        raise ArchiveUnreadable(f"{place}: {error}") from error
    own = {name: others.pop(name, None) or [] for name in BY_SEQUENCE}
    # Fields of the whole group, and distillation, which this table leaves as it was pushed.
    more = {name: values.tolist() for name, values in group.distillation.items()}
    rest = msgspec.json.encode(others | more).decode() if others or more else None
    for index in range(group.sequences):
        yield {name: stored[name] for name in (*KEPT, "epoch", "policy_step")} | {
            "sequence": index,
            "score": float(group.scores[index]),
            **{name: rows[index] if rows else None for name, rows in lists.items()},
            "messages": _messages(_at(own["messages"], index)),
            "overrides": _text(_at(own["overrides"], index)),
            "policy_versions": _versions(_at(own["policy_versions"], index)),
            "group": rest,
        }


def _of_rows(group: GroupArrays, name: str) -> list[list[int | float]] | None:
    """Return a field's rows as lists; None if the group lacks it."""
    rows = group.rows.get(name)
    if rows is None:
        return None
    return [part.tolist() for part in np.split(rows.values, rows.lengths.cumsum()[:-1])]


def _at(values: Sequence[Any], index: int) -> Any:
    return values[index] if index < len(values) else None


def _text(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def _messages(messages: Sequence[Mapping[str, Any]] | None) -> list[Row] | None:
    """Return role and text of each message, and all of it as JSON if it has more than those."""
    if messages is None:
        return None
    found = []
    for message in messages:
        content = message.get("content")
        is_plain = set(message) <= PLAIN and isinstance(content, str)
        found.append(
            {
                "role": _word(message.get("role")),
                "content": _word(content),
                "json": None if is_plain else _text(message),
            }
        )
    return found


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _versions(spans: Sequence[Sequence[int]] | None) -> list[Row] | None:
    """Return the policy versions of consecutive trained tokens; null if not recorded."""
    if spans is None:
        return None
    return [
        {"epoch": epoch, "policy_step": step, "tokens": tokens} for epoch, step, tokens in spans
    ]


if __name__ == "__main__":
    sys.exit(main())
