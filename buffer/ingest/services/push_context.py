"""Context of a push of groups: remaining room, new ids and group sizes.

Stock environments push one group at a time. The context of such pushes is read together with their
run, in one statement before the bodies are decoded. Other pushes read it after decoding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from buffer.ingest.schemas.groups import Group
from buffer.ingest.services import backpressure
from buffer.items.rules.states import OPEN, ItemKind
from runs.lifecycle.models import Run, RunKind
from runs.lifecycle.rules import SEEN_EVERY
from web import database
from web.rows import row_of
from web.sql import statements_of

SQL: Final = statements_of("buffer")

# Number of environments that are read before the body is decoded: the newest of the run.
NEWEST_ENVIRONMENTS: Final = 64
_RUN_FIELDS: Final = (
    *("id", "name", "kind", "status", "archived_at", "lenient", "advantages", "max_staleness"),
    *("drop_zero_variance", "overlong_sequences", "max_token_len"),
    *("epoch", "policy_step", "served_steps"),
)
_OPEN: Final = ", ".join(f"'{state}'" for state in sorted(OPEN))
_COUNTS: Final = f"""
    SELECT COALESCE(SUM(items) FILTER (WHERE kind = 'groups'), 0)::bigint AS items,
        COALESCE(SUM(size_bytes), 0)::bigint AS size_bytes
    FROM buffer_tally WHERE state IN ({_OPEN}) AND run_id ="""  # noqa: S608 made of constants
_UNSEEN: Final = (
    f"last_seen_at < statement_timestamp() - interval '{SEEN_EVERY.total_seconds():.0f} seconds'"
)
_NEXT_ID: Final = "nextval(pg_get_serial_sequence('buffer_trajectorygroup', 'id'))"
_OF_ONE: Final = f"""
    SELECT {", ".join(f"r.{name}" for name in _RUN_FIELDS)},
        t.items, t.size_bytes, ARRAY(SELECT {_NEXT_ID} FROM generate_series(1, %(count)s)),
        e.ids, e.sizes, e.muted, e.unseen
    FROM runs_run r
    CROSS JOIN LATERAL ({_COUNTS} r.id) t
    CROSS JOIN LATERAL (
        SELECT COALESCE(array_agg(env_id), '{{}}') AS ids,
            COALESCE(array_agg(group_size), '{{}}') AS sizes,
            COALESCE(array_agg(env_id) FILTER (WHERE muted), '{{}}') AS muted,
            COALESCE(array_agg(env_id) FILTER (WHERE {_UNSEEN}), '{{}}') AS unseen
        FROM (SELECT env_id, group_size, muted, last_seen_at
              FROM runs_environment WHERE run_id = r.id
              ORDER BY env_id DESC LIMIT {NEWEST_ENVIRONMENTS}) newest
    ) e
    WHERE r.archived_at IS NULL AND r.kind <> '{RunKind.FLEET}'"""  # noqa: S608
_OF_ONE_NAMED: Final = f"{_OF_ONE} AND r.name = %(name)s"
_OF_ONE_DEFAULT: Final = f"{_OF_ONE} AND r.is_default"


class UnknownEnvironment(ValueError):
    """The run has no environment with this id."""

    def __init__(self, index: int, env_id: int) -> None:
        super().__init__(f"this run has no environment {env_id}")
        self.index = index


@dataclass(frozen=True, slots=True, kw_only=True)
class PushContext:
    """Context of a push, read from the database.

    Attributes:
        run: The run; fields that pushes do not need are deferred.
        items: Number of its open groups.
        size_bytes: Bytes of its open items of any kind.
        ids: Ids for the groups of the push.
        sizes: Group sizes by `env_id`.
        muted: Environments whose groups are dropped.
        unseen: Environments whose `last_seen_at` must be updated.
    """

    run: Run
    items: int
    size_bytes: int
    ids: list[int]
    sizes: dict[int, int]
    muted: frozenset[int] = frozenset()
    unseen: frozenset[int] = frozenset()

    def suffices(self, groups: Sequence[Group]) -> bool:
        """Return whether it has enough ids and all environments of these groups."""
        named = {group.env_id for group in groups if group.env_id is not None}
        return len(groups) <= len(self.ids) and self.sizes.keys() >= named

    def is_partial(self, group: Group) -> bool:
        """Return whether a group is smaller than the groups of its environment."""
        return group.env_id is not None and group.sequences < self.sizes[group.env_id]

    def check_room(self) -> None:
        """Check that the run may store more groups.

        Raises:
            QueueFull: If the run is at its limit of groups or bytes.
            DiskFull: If free disk space is below the minimum.
        """
        backpressure.check_room(
            self.run, ItemKind.GROUPS, items=self.items, size_bytes=self.size_bytes
        )


def push_context_of(name: str | None, *, count: int) -> PushContext | None:
    """Return the context of pushes to a run, read before their bodies are decoded.

    Args:
        name: Name of the run; None for the default run.
        count: Number of new ids.

    Returns:
        The context, or None if the run does not exist or takes no groups.
    """
    query = _OF_ONE_DEFAULT if name is None else _OF_ONE_NAMED
    with database.cursor() as cursor:
        row = cursor.execute(query, {"name": name, "count": count}, prepare=True).fetchone()
    if row is None:
        return None
    run = row_of(Run, dict(zip(_RUN_FIELDS, row, strict=False)))
    return _context(run, *row[len(_RUN_FIELDS) :])


def push_context_for(run: Run, groups: Sequence[Group], *, count: int) -> PushContext:
    """Return the context of a push of groups, with `count` new ids.

    Raises:
        UnknownEnvironment: If a group names an environment that the run does not have.
    """
    named = {group.env_id for group in groups if group.env_id is not None}
    parameters = {
        "run": run.pk,
        "count": count,
        "envs": [env_id for env_id in named if 0 <= env_id < 2**31],
    }
    with database.cursor() as cursor:
        row = cursor.execute(SQL["context_of_groups"], parameters, prepare=True).fetchone()
    assert row is not None  # noqa: S101 an aggregate has a row
    found = _context(run, *row)
    for index, group in enumerate(groups):
        if group.env_id is not None and group.env_id not in found.sizes:
            if not run.lenient or not 0 <= group.env_id < 2**31:
                raise UnknownEnvironment(index, group.env_id)
            found.sizes[group.env_id] = 1
    return found


def new_group_ids(count: int) -> list[int]:
    """Return ids for groups that no push brings."""
    with database.cursor() as cursor:
        query = f"SELECT {_NEXT_ID} FROM generate_series(1, %s)"  # noqa: S608
        return [item_id for (item_id,) in cursor.execute(query, [count]).fetchall()]


def _context(run: Run, *row: Any) -> PushContext:
    items, size_bytes, ids, known, sizes, muted, unseen = row
    return PushContext(
        run=run,
        items=items,
        size_bytes=size_bytes,
        ids=ids,
        sizes=dict(zip(known, sizes, strict=True)),
        muted=frozenset(muted),
        unseen=frozenset(unseen),
    )
