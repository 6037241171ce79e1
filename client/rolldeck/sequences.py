"""Write the groups of an archive as a Parquet table with one typed row for each sequence.

    rolldeck sequences my-run.parquet --out sequences.parquet
    rolldeck sequences my-run.parquet --tasks --out tasks.parquet

With ``--tasks`` a row is the prompt of a group. The columns are in docs/reference/archive.md.
Values equal those that were pushed: integers as int32, numbers as float64. It needs pyarrow.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rolldeck.archived_groups import FACTS, ArchivedGroup, ArchiveUnreadable, groups_in
from rolldeck.group_tasks import EVERY_GROUP, TASKS, Selection, Tasks
from rolldeck.groups import GroupArrays

INTEGERS: Final = ("tokens", "masks")
NUMBERS: Final = ("advantages", "ref_logprobs", "inference_logprobs")
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

__all__ = ["SCHEMA", "ArchiveUnreadable", "main", "sequences_of", "write_sequences", "write_tasks"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 for success, 1 if the archive cannot be read."""
    parser = _parser()
    args = parser.parse_args(argv)
    selection = Selection(args.lowest_below, args.highest_above)
    if selection != EVERY_GROUP and not args.tasks:
        parser.error("--lowest-below and --highest-above select tasks; add --tasks")
    try:
        if args.tasks:
            tasks = write_tasks(args.archive, args.out, selection, label=args.label)
            shown = f"{len(tasks):,} tasks{tasks.left_out}"
        else:
            count = write_sequences(args.archive, args.out, label=args.label)
            shown = f"{count:,} sequences"
    except (ArchiveUnreadable, OSError) as error:
        print(f"rolldeck sequences: {error}", file=sys.stderr)
        return 1
    print(f"{args.out}: {shown}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rolldeck sequences",
        description="Write an archive of groups as a Parquet table of sequences or tasks.",
    )
    parser.add_argument("archive", type=Path, metavar="ARCHIVE", help="file of an archived run")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="output file")
    parser.add_argument(
        "--tasks", action="store_true", help="one row per group, with its prompt, for lessons"
    )
    parser.add_argument(
        "--label", type=int, choices=range(1, 10), help="only groups with this label, 1 to 9"
    )
    parser.add_argument(
        "--lowest-below",
        type=float,
        metavar="SCORE",
        help="with --tasks: only groups whose lowest score is below SCORE",
    )
    parser.add_argument(
        "--highest-above",
        type=float,
        metavar="SCORE",
        help="with --tasks: only groups whose highest score is above SCORE",
    )
    return parser


def write_sequences(archive: Path, target: Path, *, label: int | None = None) -> int:
    """Write the sequences of an archive, or of its groups with a label; return their number.

    The file appears once it is complete. Memory is bounded by 64 groups.

    Raises:
        ArchiveUnreadable: If the archive is damaged, cut short, holds fragments, or has no group
            with the label.
        OSError: If a file cannot be read or written.
    """
    with _complete(target, SCHEMA) as write:
        return sum(
            write([row for archived in groups for row in sequences_of(archived)])
            for groups in groups_in(archive, label=label)
        )


def write_tasks(
    archive: Path, target: Path, selection: Selection = EVERY_GROUP, *, label: int | None = None
) -> Tasks:
    """Write the prompts of an archive's groups, or of those with a label, for ``dataset:`` lessons.

    The file appears once it is complete.

    Raises:
        ArchiveUnreadable: If the archive is damaged or cut short, holds fragments, has no
            group with the label, or has no selected group with a prompt.
        OSError: If a file cannot be read or written.
    """
    tasks = Tasks(selection)
    with _complete(target, TASKS) as write:
        for groups in groups_in(archive, label=label):
            write(tasks.rows(groups))
        tasks.check(archive)
    return tasks


@contextmanager
def _complete(target: Path, schema: pa.Schema) -> Iterator[Callable[[list[Row]], int]]:
    """Yield a function that writes rows and returns their number; keep only a complete file."""
    part = target.with_name(f".{target.name}.part")
    try:
        with pq.ParquetWriter(part, schema, compression="zstd") as writer:

            def write(rows: list[Row]) -> int:
                writer.write_table(pa.Table.from_pylist(rows, schema=schema))
                return len(rows)

            yield write
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def sequences_of(archived: ArchivedGroup) -> Iterator[Row]:
    """Yield a row of :data:`SCHEMA` for each sequence of a group."""
    group, others = archived.group, dict(archived.others)
    lists = {name: _of_rows(group, name) for name in (*INTEGERS, *NUMBERS)}
    # A list of another length than the group belongs to sequences that are unknown.
    own = {
        name: others.pop(name)
        for name in BY_SEQUENCE
        if isinstance(others.get(name), list) and len(others[name]) == group.sequences
    }
    # Fields of the whole group, and distillation, which this table leaves as it was pushed.
    more = {name: values.tolist() for name, values in group.distillation.items()}
    rest = msgspec.json.encode(others | more).decode() if others or more else None
    for index in range(group.sequences):
        yield {name: archived.row[name] for name in FACTS} | {
            "sequence": index,
            "score": float(group.scores[index]),
            **{name: rows[index] if rows else None for name, rows in lists.items()},
            "messages": _messages(_at(own.get("messages"), index)),
            "overrides": _text(_at(own.get("overrides"), index)),
            "policy_versions": _versions(_at(own.get("policy_versions"), index)),
            "group": rest,
        }


def _of_rows(group: GroupArrays, name: str) -> list[list[int | float]] | None:
    """Return a field's rows as lists; None if the group lacks it."""
    rows = group.rows.get(name)
    if rows is None:
        return None
    return [part.tolist() for part in np.split(rows.values, rows.lengths.cumsum()[:-1])]


def _at(values: Sequence[Any] | None, index: int) -> Any:
    return None if values is None else values[index]


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
