"""Content, origin and destination, marks and text of groups."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from buffer.inspect.models import GroupDigest as StoredDigest
from buffer.inspect.models import GroupMark
from buffer.inspect.queries.group_lists import FLAGS
from buffer.inspect.rules.group_digest import GroupDigest, digest
from buffer.inspect.rules.sample_filter import Flag
from buffer.inspect.rules.token_text import TokenTable
from buffer.inspect.schemas import GroupRow, MarkOfGroup
from buffer.items.models import Batch, TrajectoryGroup
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import PayloadMissing, content_head, readable_contents
from rolldeck.group_encoding import to_json
from rolldeck.groups import JSON, GroupArrays, InvalidGroupError, read
from runs.access.queries import token_names
from runs.lifecycle.models import Environment, PolicyVersion, Run
from runs.lifecycle.rules import NO_POLICY_STEP
from web.rules.errors import InvalidData
from web.sql import statements_of

SQL: Final = statements_of("buffer")


_ALL: Final = (1 << 31) - 1


class GroupUnreadable(InvalidData):
    """The bytes are not a valid group; lenient runs accept such groups."""


def stored_bytes(row: GroupRow) -> bytes:
    """Return the stored bytes of a group.

    Raises:
        PayloadMissing: If its bytes were not stored or are lost.
        PayloadExpired: If retention removed them.
    """
    if not row.has_bytes:
        raise PayloadMissing(ItemKind.GROUPS, row.id, why="they were not stored")
    return content_head(ItemKind.GROUPS, row.id, _ALL)


def opened(row: GroupRow) -> GroupArrays:
    """Return the decoded content of a group.

    Raises:
        GroupUnreadable: If its bytes are no group.
        PayloadMissing: If it has none.
    """
    try:
        return read(stored_bytes(row), row.codec)
    except InvalidGroupError as error:
        raise GroupUnreadable(f"group {row.id} cannot be taken apart: {error}") from error


def as_json(row: GroupRow) -> bytes:
    """Return a group in Atropos' JSON.

    Raises:
        GroupUnreadable: If its bytes are no group.
        PayloadMissing: If it has none.
    """
    return stored_bytes(row) if row.codec == JSON else to_json(opened(row))


READERS: Final[list[Callable[[Run], TokenTable | None]]] = []
"""Return the texts of a run's tokens, or None if unknown (:mod:`config.readers`)."""


def token_table(run: Run) -> TokenTable | None:
    """Return the texts of a run's tokens, or None if there is no tokenizer."""
    return next((found for reader in READERS if (found := reader(run)) is not None), None)


def digests_of(run: Run, groups: Mapping[int, int | None]) -> dict[int, GroupDigest]:
    """Return the digests of groups from their bytes; groups that cannot be read have none.

    Args:
        run: Their run.
        groups: Ids of their environments by their own.
    """
    table = token_table(run)
    text_of = None if table is None else table.text
    limits = dict(Environment.objects.filter(run=run).values_list("env_id", "max_token_length"))
    found = {}
    for group_id, stored in readable_contents(ItemKind.GROUPS, list(groups)).items():
        if not stored.is_intact():
            continue
        env_id = groups[group_id]
        own = 0 if env_id is None else limits.get(env_id, 0)
        with suppress(InvalidGroupError):  # lenient runs accept groups that fit no arrays
            group = read(stored.content, stored.codec)
            found[group_id] = digest(group, text_of=text_of, limits=(own, run.max_token_len or 0))
    return found


DIGESTED_BYTES: Final = 16 << 20
"""Bytes of the groups that one request digests; the background digests larger ones."""


class Undigested(NamedTuple):
    """A group with bytes and without a stored digest."""

    run_id: int
    group_id: int
    env_id: int | None
    size_bytes: int


def _fresh_digests(groups: Iterable[Undigested]) -> dict[int, GroupDigest]:
    """Return the digests of the first groups, together at most :data:`DIGESTED_BYTES`, by id."""
    waiting: dict[int, dict[int, int | None]] = defaultdict(dict)
    left = DIGESTED_BYTES
    for group in groups:
        if group.size_bytes <= left:
            waiting[group.run_id][group.group_id] = group.env_id
            left -= group.size_bytes
    runs = Run.objects.in_bulk(waiting) if waiting else {}
    return {
        group_id: made
        for run_id, run in runs.items()
        for group_id, made in digests_of(run, waiting[run_id]).items()
    }


def with_digests(rows: Sequence[GroupRow]) -> list[GroupRow]:
    """Return rows, those that are not digested yet with their digests."""
    made = _fresh_digests(
        Undigested(row.run_id, row.id, row.env_id, row.size_bytes)
        for row in rows
        if row.has_bytes and not row.is_digested
    )
    return [_with_digest(row, made.get(row.id)) for row in rows]


def _with_digest(row: GroupRow, made: GroupDigest | None) -> GroupRow:
    if made is None:
        return row
    flags = {Flag.TRUNCATED: made.truncated, Flag.DUPLICATE: made.duplicates}
    return msgspec.structs.replace(
        row,
        **{name: getattr(made, name) for name in ("lesson", "worker", "example", "scores")},
        **{name: getattr(made, name) for name in ("lengths", "excerpt", "answer")},
        truncated=made.truncated,
        duplicates=made.duplicates,
        flags=[flag for flag in FLAGS if flags.get(flag) or flag in row.flags],
        prompt="" if made.prompt is None else made.prompt.hex,
        facts=msgspec.json.encode(made.facts).decode(),
        advantages=made.advantages,
        correct=made.correct,
        is_digested=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Batch, policy version, environment and neighbours of a group."""

    batch: Batch | None
    version: PolicyVersion | None
    env_spec: str
    seed: int | None
    newer: int | None
    older: int | None
    has_gradient: bool | None
    """Whether a trained token has an advantage other than 0; None until it is digested."""


def provenance(run: Run, row: GroupRow) -> Provenance:
    """Return the provenance of a group."""
    batches = Batch.objects.select_related("trainer")
    step = NO_POLICY_STEP if row.policy_step is None else row.policy_step
    versions = PolicyVersion.objects.filter(run=run, epoch=row.epoch, step=step)
    kept = TrajectoryGroup.objects.filter(run=run, segment__isnull=False)
    digests = StoredDigest.objects.filter(group_id=row.id)
    seed = run.config.get("seed")
    return Provenance(
        batch=None if row.batch_id is None else batches.filter(pk=row.batch_id).first(),
        version=versions.defer("manifest").first(),
        env_spec=_env_spec(run, row),
        seed=seed if isinstance(seed, int) else None,
        newer=_first(kept.filter(id__gt=row.id).order_by("id")),
        older=_first(kept.filter(id__lt=row.id).order_by("-id")),
        has_gradient=digests.values_list("has_gradient", flat=True).first(),
    )


def environment_names(run_id: int) -> dict[int, str]:
    """Return the names of a run's environments by `env_id`."""
    rows = Environment.objects.filter(run_id=run_id)
    return dict(rows.values_list("env_id", "wandb_name"))


def _first(rows: Any) -> int | None:
    found: int | None = rows.values_list("id", flat=True).first()
    return found


def _env_spec(run: Run, row: GroupRow) -> str:
    lessons = (run.config.get("language") or {}).get("lessons") or {}
    lesson = lessons.get(row.lesson)
    if isinstance(lesson, dict):
        return str(lesson.get("spec", ""))
    if row.env_id is None:
        return ""
    specs = Environment.objects.filter(run=run, env_id=row.env_id).values_list("spec", flat=True)
    return specs.first() or ""


def marks_of(group_ids: Sequence[int]) -> dict[int, MarkOfGroup]:
    """Return the marks of groups; groups without marks are omitted."""
    rows = list(GroupMark.objects.filter(group_id__in=group_ids))
    tokens = token_names({row.changed_by for row in rows})
    return {
        row.group_id: MarkOfGroup(
            tags=row.tags,
            note=row.note,
            changed_by=tokens.get(
                row.changed_by, row.changed_by.partition(":")[2] or row.changed_by
            ),
            changed_at=row.changed_at,
        )
        for row in rows
    }
