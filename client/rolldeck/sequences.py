"""Sequences of archived groups, and their prompts as rows for lessons.

::

    rolldeck archive sequences my-run.parquet --out sequences.parquet
    rolldeck archive sequences my-run.parquet --tasks --out tasks.parquet

With ``--tasks`` a row is the prompt of a group. The columns are in docs/reference/archive.md.
Values equal those that were pushed: integers as int32, numbers as float64. It needs pyarrow.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rolldeck.errors import InvalidMessageError
from rolldeck.groups import IGNORED, GroupArrays, read

# Groups of an archive file, read in parts.

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


class ArchiveUnreadableError(ValueError):
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
    tags: list[str] = []


def groups_in(
    archive: Path, row_groups: Sequence[int] | None = None, *, tag: str = ""
) -> Iterator[list[ArchivedGroup]]:
    """Yield the groups of an archive, up to 64 at a time.

    Args:
        archive: The file.
        row_groups: Numbers of the Parquet row groups to read; None for all.
        tag: Tag of the groups to read; empty for all groups.

    Raises:
        ArchiveUnreadableError: If the archive is damaged, cut short, holds fragments, or has no
            group with the tag.
        OSError: If the file cannot be read.
    """
    with _opened(archive) as file:
        items = _tagged(archive, file, tag) if tag else None
        for batch in file.iter_batches(
            batch_size=GROUPS_AT_ONCE, row_groups=row_groups, columns=[*COLUMNS]
        ):
            yield [
                _group(archive, row)
                for row in batch.to_pylist()
                if items is None or row["item_id"] in items
            ]


def row_groups_of(archive: Path) -> list[tuple[int, int]]:
    """Return the number of groups, and of bytes in memory, of each Parquet row group.

    Raises:
        ArchiveUnreadableError: If the archive is cut short, or holds fragments.
        OSError: If the file cannot be read.
    """
    with _opened(archive) as file:
        parts = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        return [(part.num_rows, part.total_byte_size) for part in parts]


@contextmanager
def _opened(archive: Path) -> Iterator[Any]:
    try:
        with pq.ParquetFile(archive) as file:
            facts = file.schema_arrow.metadata or {}
            form = facts.get(b"rolldeck.format", b"").decode()
            kind = facts.get(b"rolldeck.kind", b"").decode()
            if not form:
                raise ArchiveUnreadableError(f"{archive} is no archive")
            if form != FORMAT:
                what = f"the archive format {form!r}, not {FORMAT!r}"
                raise ArchiveUnreadableError(f"{archive} has {what}")
            if kind != "groups":
                raise ArchiveUnreadableError(f"{archive} holds {kind}; only groups have sequences")
            yield file
    except pa.ArrowException as error:
        raise ArchiveUnreadableError(
            f"{archive} is not a complete Parquet file: {error}"
        ) from error


def _tagged(archive: Path, file: Any, tag: str) -> frozenset[int]:
    """Return the items of the archived run with a tag."""
    stored = (file.schema_arrow.metadata or {}).get(b"rolldeck.marks", b"{}")
    try:
        marks = msgspec.json.decode(stored, type=_Marks).groups
    except msgspec.DecodeError as error:
        raise ArchiveUnreadableError(f"{archive}: rolldeck.marks: {error}") from error
    items = frozenset(mark.item_id for mark in marks if tag in mark.tags)
    if not items:
        used = ", ".join(sorted({tag for mark in marks for tag in mark.tags}))
        known = f"its tags are {used}" if used else "it has no tags"
        raise ArchiveUnreadableError(f"{archive} has no group with the tag {tag!r}; {known}")
    return items


def _group(archive: Path, row: Row) -> ArchivedGroup:
    place = f"{archive}, item {row['item_id']}"
    if zlib.crc32(row["payload"]) != row["crc32"]:
        raise ArchiveUnreadableError(f"{place}: the payload does not match its checksum")
    try:
        group = read(row["payload"], row["codec"]).without_unusable_rows()
        others = {name: msgspec.json.decode(text) for name, text in group.json.items()}
    except (InvalidMessageError, msgspec.DecodeError) as error:
        raise ArchiveUnreadableError(f"{place}: {error}") from error
    return ArchivedGroup(place, row, group, others)


# Prompts of archived groups, as rows for lessons with a data set.

PLAIN: Final = frozenset({"role", "content"})
TASKS: Final = pa.schema(
    [
        ("item_id", pa.int64()),
        ("env_id", pa.int64()),
        ("example", pa.string()),
        ("prompt_tokens", pa.list_(pa.int32())),
        ("prompt", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        ("best_answer", pa.string()),
        ("sequences", pa.int32()),
        ("score_mean", pa.float64()),
        ("score_min", pa.float64()),
        ("score_max", pa.float64()),
        ("score_std", pa.float64()),
    ]
)


class NoPromptError(ValueError):
    """The sequences of a group do not have a common prompt."""


class Selection(NamedTuple):
    """Limits of the scores of a group."""

    lowest_below: float | None = None
    """Exclusive upper limit of the lowest score; drops groups that all sequences solved."""
    highest_above: float | None = None
    """Exclusive lower limit of the highest score; drops groups that no sequence solved."""

    def has(self, row: Row) -> bool:
        """Return whether the limits include a row of :data:`TASKS`."""
        return (self.lowest_below is None or row["score_min"] < self.lowest_below) and (
            self.highest_above is None or row["score_max"] > self.highest_above
        )


EVERY_GROUP: Final = Selection()


class Tasks:
    """Tasks of an archive, with the groups that are left out."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._count, self._unselected, self._without_prompt = 0, 0, 0
        self._problem = ""

    def __len__(self) -> int:
        """Return the number of tasks so far."""
        return self._count

    @property
    def left_out(self) -> str:
        """Numbers of the groups left out, for the end of a message; empty if there are none."""
        parts = []
        if self._unselected:
            parts.append(f"{self._unselected:,} by their scores")
        if self._without_prompt:
            parts.append(f"{self._without_prompt:,} without a prompt ({self._problem})")
        return f"; groups left out: {', '.join(parts)}" if parts else ""

    def rows(self, groups: Iterable[ArchivedGroup]) -> list[Row]:
        """Return rows of :data:`TASKS` for the selected groups that have a prompt."""
        found = []
        for archived in groups:
            try:
                row = task_of(archived)
            except NoPromptError as error:
                self._without_prompt += 1
                self._problem = self._problem or f"{archived.place}: {error}"
                continue
            if self._selection.has(row):
                found.append(row)
            else:
                self._unselected += 1
        self._count += len(found)
        return found

    def check(self, archive: Path) -> None:
        """Check that there is a task.

        Raises:
            ArchiveUnreadableError: With the groups left out, if there is none.
        """
        if not self._count:
            raise ArchiveUnreadableError(f"{archive} has no task{self.left_out}")


def task_of(archived: ArchivedGroup) -> Row:
    """Return a row of :data:`TASKS`.

    Raises:
        NoPromptError: With the field and the reason, if the sequences have no common prompt.
    """
    group, scores = archived.group, archived.group.scores.astype(np.float64)
    messages = archived.others.get("messages")
    example = archived.others.get("example")
    prompt = _prompt_messages(messages)
    try:
        tokens = _prompt_tokens(archived)
    except NoPromptError:
        if prompt is None:
            raise
        tokens = None
    return {
        "item_id": archived.row["item_id"],
        "env_id": archived.row["env_id"],
        "example": example if isinstance(example, str) else None,
        "prompt_tokens": tokens,
        "prompt": prompt,
        "best_answer": _last_answer(messages, int(scores.argmax()), sequences=group.sequences),
        "sequences": group.sequences,
        "score_mean": float(scores.mean()),
        "score_min": float(scores.min()),
        "score_max": float(scores.max()),
        "score_std": float(scores.std()),
    }


def _prompt_tokens(archived: ArchivedGroup) -> list[int]:
    """Return the tokens before the first trained one, which all sequences begin with."""
    rows = archived.group.rows
    starts = rows["tokens"].lengths.cumsum()[:-1]
    tokens, masks = (np.split(rows[name].values, starts) for name in ("tokens", "masks"))
    found: list[int] | None = None
    for index, (own, mask) in enumerate(zip(tokens, masks, strict=True)):
        trained = np.flatnonzero(mask != IGNORED)
        if not len(trained):
            continue  # an answer that is not trained on has no known start
        prompt = own[: trained[0]].tolist()
        if not prompt:
            raise NoPromptError(f"masks.{index}: the first token is trained, so there is no prompt")
        if found is not None and prompt != found:
            raise NoPromptError(f"tokens.{index}: the prompt differs from that of other sequences")
        found = prompt
    if found is None:
        raise NoPromptError("masks: no sequence has a trained token")
    return found


def _prompt_messages(messages: Any) -> list[Row] | None:
    """Return the messages before the first answer; None if a lesson cannot render them."""
    prompts = []
    for own in messages if isinstance(messages, list) else []:
        prompt: list[Any] = []
        for message in own if isinstance(own, list) else []:
            if not isinstance(message, Mapping) or message.get("role") == "assistant":
                break
            prompt.append(message)
        prompts.append(prompt)
    if not prompts or not prompts[0] or any(one != prompts[0] for one in prompts):
        return None
    is_plain = all(
        set(message) == PLAIN and all(isinstance(value, str) for value in message.values())
        for message in prompts[0]
    )
    return prompts[0] if is_plain else None


def _last_answer(messages: Any, index: int, *, sequences: int) -> str | None:
    """Return the text of a sequence's last message, if it is an answer.

    None if the messages are not those of all sequences: their order is then unknown.
    """
    own = messages[index] if isinstance(messages, list) and len(messages) == sequences else None
    last = own[-1] if own and isinstance(own, list) else None
    if not isinstance(last, Mapping) or last.get("role") != "assistant":
        return None
    content = last.get("content")
    return content if isinstance(content, str) else None


# Write the groups of an archive as a Parquet table with one typed row for each sequence.

INTEGERS: Final = ("tokens", "masks")
NUMBERS: Final = ("advantages", "ref_logprobs", "inference_logprobs")
MESSAGES: Final = pa.list_(
    pa.struct([("role", pa.string()), ("content", pa.string()), ("json", pa.string())])
)
VERSION_FIELDS: Final = ("epoch", "policy_step", "tokens")
VERSIONS: Final = pa.list_(
    pa.struct(list(zip(VERSION_FIELDS, (pa.int64(), pa.int64(), pa.int32()), strict=True)))
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

__all__ = [
    "SCHEMA",
    "ArchiveUnreadableError",
    "sequences_of",
    "write_sequences",
    "write_tasks",
]


def write_sequences(archive: Path, target: Path, *, tag: str = "") -> int:
    """Write the sequences of an archive, or of its groups with a tag; return their number.

    The file appears once it is complete. Memory is bounded by 64 groups.

    Raises:
        ArchiveUnreadableError: If the archive is damaged, cut short, holds fragments, or has no
            group with the tag.
        OSError: If a file cannot be read or written.
    """
    with _complete(target, SCHEMA) as write:
        return sum(
            write([row for archived in groups for row in sequences_of(archived)])
            for groups in groups_in(archive, tag=tag)
        )


def write_tasks(
    archive: Path, target: Path, selection: Selection = EVERY_GROUP, *, tag: str = ""
) -> Tasks:
    """Write the prompts of an archive's groups, or of those with a tag, for ``dataset:`` lessons.

    The file appears once it is complete.

    Raises:
        ArchiveUnreadableError: If the archive is damaged or cut short, holds fragments, has no
            group with the tag, or has no selected group with a prompt.
        OSError: If a file cannot be read or written.
    """
    tasks = Tasks(selection)
    with _complete(target, TASKS) as write:
        for groups in groups_in(archive, tag=tag):
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
    ends = {name: rows.lengths.cumsum()[:-1] for name, rows in group.rows.items()}
    lists = {
        name: [row.tolist() for row in np.split(rows.values, ends[name])]
        for name, rows in group.rows.items()
    }
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
        # Policy versions of consecutive trained tokens; null if not recorded.
        spans = _at(own.get("policy_versions"), index)
        yield {name: archived.row[name] for name in FACTS} | {
            "sequence": index,
            "score": float(group.scores[index]),
            **{name: _at(lists.get(name), index) for name in (*INTEGERS, *NUMBERS)},
            "messages": _messages(_at(own.get("messages"), index)),
            "overrides": _text(_at(own.get("overrides"), index)),
            "policy_versions": None
            if spans is None
            else [dict(zip(VERSION_FIELDS, span, strict=True)) for span in spans],
            "group": rest,
        }


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
