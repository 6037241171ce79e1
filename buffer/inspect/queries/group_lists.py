"""Lists of the groups of runs, from metadata only."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from buffer.inspect.models import DigestCursor
from buffer.inspect.queries.sample_lists import (
    Condition,
    Listing,
    fact_value,
    json_or_last,
    moment,
    numeric,
    or_last,
    read_page,
    rows_of_each,
    rows_of_runs,
    tests_of,
    text,
)
from buffer.inspect.rules.sample_filter import Flag, Position, SampleFilter
from buffer.inspect.schemas import GroupRow
from buffer.items.rules.states import STALE_REASONS, ItemState
from runs.search.rules import Term
from web.rules.errors import NotFound
from web.sql import statements_of

SQL: Final = statements_of("buffer")

ROWS_EXAMINED: Final = 50_000
"""Maximum number of groups that one page searches; it may need more in many runs."""
COUNTED: Final = 10_000
_COLUMNS: Final = """g.id, g.run_id, g.state, g.drop_reason, g.batch_id, g.position, g.epoch,
    g.policy_step, g.env_id, g.received_at, g.size_bytes, g.codec, g.segment, g.origin,
    g.sequences, g.tokens, g.longest_tokens, g.score_mean, g.score_min, g.score_max, g.score_std,
    g.producer"""
_GROUPS: Final = "buffer_trajectorygroup g"
_DIGESTS: Final = "buffer_groupdigest d JOIN buffer_trajectorygroup g ON g.id = d.group_id"
_MARKS: Final = "buffer_groupmark m JOIN buffer_trajectorygroup g ON g.id = m.group_id"
_JOINED: Final = """LEFT JOIN buffer_groupdigest d ON d.group_id = g.id
    LEFT JOIN buffer_groupmark m ON m.group_id = g.id
    LEFT JOIN buffer_batch b ON b.id = g.batch_id
    LEFT JOIN runs_environment e ON e.run_id = g.run_id AND e.env_id = g.env_id
    JOIN runs_run o ON o.id = g.run_id"""
_WORKER: Final = "COALESCE(NULLIF(d.worker, ''), g.producer)"
# Sorted by an index of the digests.
_INDEXED: Final = {"score": "score_mean", "length": "longest_tokens"}
_STALE: Final = ", ".join(f"'{reason}'" for reason in sorted(STALE_REASONS))
FLAGS: Final = {
    Flag.TRUNCATED: "d.truncated > 0",
    Flag.ZERO_VARIANCE: "g.sequences > 1 AND g.score_min = g.score_max",
    Flag.DUPLICATE: "d.duplicates > 0",
    Flag.STALE: f"g.drop_reason IN ({_STALE})",
    Flag.QUARANTINED: f"g.state = '{ItemState.QUARANTINED}'",
}
_IS: Final = ", ".join(
    f"CASE WHEN {test} THEN '{name}' END"
    for name, test in (*FLAGS.items(), ("noted", "m.note <> ''"))
)


def _tag(operator: str, value: str) -> str:
    """Return the condition that one of the tags of a group matches."""
    if operator == "~":
        found = f"SELECT FROM unnest(m.tags) t WHERE {text('t')(operator, value)}"
        # The first part is redundant, but shows the planner that it needs no group without a mark.
        return f"m.tags IS NOT NULL AND EXISTS ({found})"
    return f"m.tags @> ARRAY[{value}]::varchar[]"


_SOLVED: Final = "d.correct / NULLIF(g.sequences, 0)::float8"
_CONDITIONS: Final[dict[str, Condition]] = {
    "env": text("d.lesson", "e.wandb_name", "e.desired_name"),
    "worker": text(_WORKER),
    "state": text("g.state"),
    "reason": text("g.drop_reason"),
    "version": numeric("g.policy_step"),
    "step": numeric("b.ordinal"),
    "score": numeric("g.score_mean"),
    "length": numeric("g.longest_tokens"),
    "solved": numeric(_SOLVED),
    "tag": _tag,
    "arrived": moment("g.received_at"),
    "batch": lambda _, value: f"g.batch_id = {value}::uuid",
    "prompt": lambda _, value: f"d.prompt = {value}::uuid",
    "is": lambda _, value: f"{value} = ANY(ARRAY[{_IS}])",
}
# One index of words serves all runs; each digest also has a word for its run.
_WORDS: Final = """d.words @@ (websearch_to_tsquery('simple', %(words)s)
    && ('''run:' || r.run || '''')::tsquery)"""
_WITH_WORDS: Final = "JOIN buffer_groupdigest d ON d.group_id = g.id"
# The columns of a `GroupRow`, in its order.
_ROW: Final = """g.id, g.state, g.drop_reason, g.env_id, COALESCE(d.lesson, ''),
    COALESCE(d.worker, ''), COALESCE(d.example, ''), g.producer, g.epoch, g.policy_step,
    b.ordinal, g.position, g.received_at, g.size_bytes, g.sequences, g.tokens, g.longest_tokens,
    g.score_mean, g.score_min, g.score_max, g.score_std, COALESCE(d.scores, '{{}}'),
    COALESCE(d.lengths, '{{}}'), array_remove(ARRAY[{flags}], NULL), COALESCE(d.excerpt, ''),
    COALESCE(d.answer, ''), d.group_id IS NOT NULL, g.segment IS NOT NULL,
    COALESCE(replace(d.prompt::text, '-', ''), ''), g.batch_id, g.codec, g.origin,
    COALESCE(d.truncated, 0), COALESCE(d.duplicates, 0), g.run_id,
    COALESCE(e.wandb_name, ''), COALESCE(d.facts, '{{}}'), COALESCE(d.advantages, '{{}}'),
    d.correct""".format(
    flags=", ".join(f"CASE WHEN {test} THEN '{flag}' END" for flag, test in FLAGS.items())
)
_ONE: Final = f"""
    SELECT {_ROW} FROM buffer_trajectorygroup g {_JOINED}
    WHERE g.id = %(group)s AND g.run_id = %(run)s"""  # noqa: S608


class GroupNotFound(NotFound):
    """The run has no such group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """A page of a list."""

    rows: list[GroupRow]
    next: Position | None
    """Position of the end of the page; None at the end of the list."""
    is_partial: bool
    """True if the page ends early because the search reached its row limit."""


def group_page(
    runs: Sequence[int],
    wanted: SampleFilter,
    *,
    limit: int,
    now: datetime,
    after: Position | None = None,
    backward: bool = False,
    examined: int = ROWS_EXAMINED,
) -> GroupPage:
    """Return a page of groups after a position or, if `backward`, before it, nearest first.

    Args:
        runs: Ids of the runs.
        wanted: The filter.
        limit: Maximum number of rows.
        now: Reference time of ages.
        after: Position after which the rows begin; None for the beginning.
        backward: Whether to read in reverse order, beginning before `after`.
        examined: Maximum number of groups to search.

    Raises:
        SearchTooSlow: If the database takes too long.
    """
    listing, is_bounded = _listing(
        runs, wanted, limit=limit, now=now, after=after, backward=backward, examined=examined
    )
    found = read_page(listing, limit=limit, after=after, is_bounded=is_bounded, runs=len(runs))
    return GroupPage(
        rows=[GroupRow(*row[:-2]) for row in found.rows],
        next=found.next,
        is_partial=found.is_partial,
    )


def _listing(
    runs: Sequence[int],
    wanted: SampleFilter,
    *,
    limit: int,
    now: datetime,
    after: Position | None,
    backward: bool,
    examined: int,
) -> tuple[Listing, bool]:
    """Return a list, and whether its source is cut after a number of rows."""
    is_descending = wanted.is_descending is not backward
    sign, direction = ("<", "DESC") if is_descending else (">", "ASC")
    params: dict[str, Any] = {"runs": list(runs), "words": wanted.words}
    if after is not None:
        params |= {"after_value": after.value, "after_id": after.row}
    tests = tests_of(wanted.terms, _CONDITIONS, params, now=now)
    key = wanted.key
    is_of_source = key in (*_INDEXED, "arrived")
    if key in _INDEXED:
        source = _by_digest(wanted, tests, after=after, sign=sign, direction=direction)
    else:
        beyond = f" AND g.id {sign} %(after_id)s" if key == "arrived" and after else ""
        end = f" ORDER BY g.id {direction if key == 'arrived' else 'DESC'} LIMIT %(each)s"
        parts = [
            f"SELECT {_COLUMNS} FROM {tables}{beyond}{end}"  # noqa: S608 made of constants
            for tables in _sources(wanted, tests)
        ]
        # Each part has its own LIMIT: otherwise the planner sorts all rows instead of using the
        # index.
        source = " UNION ALL ".join(f"({part})" for part in parts)
        if len(parts) > 1:
            source = f"SELECT * FROM ({source}) g{end}"  # noqa: S608
    left = list(tests.values())
    is_bounded = bool(left) or not is_of_source
    params["each"] = rows_of_each(
        len(runs), limit=limit, rows=examined if is_bounded else limit + 1
    )
    listing = Listing(
        row=_ROW,
        source=rows_of_runs(source, runs, params),
        joined=_JOINED,
        tests=left,
        params=params,
        value=_sort_value(wanted, params, is_descending=is_descending),
        cast=_cast(wanted),
        is_descending=is_descending,
        is_of_source=is_of_source,
    )
    return listing, is_bounded


def _sources(wanted: SampleFilter, tests: dict[Term, str]) -> list[str]:
    """Return the tables and conditions of the newest groups, and take these out of the tests."""
    # Marked groups are few compared to the run, so filters on marks find groups of any age.
    for name, tables, of_run in (
        ("batch", _GROUPS, "g.run_id"),
        ("tag", _MARKS, "m.run_id"),
        ("noted", _MARKS, "m.run_id"),
        ("prompt", _DIGESTS, "d.run_id"),
    ):
        term = wanted.only("is" if name == "noted" else name, or_part=name == "tag")
        if term is None or (name == "noted" and term.values != ("noted",)):
            continue
        found = f"{tables} WHERE {of_run} = r.run AND {tests.pop(term)}"
        if name == "noted":
            found = f"{tables} WHERE {of_run} = r.run AND m.note <> ''"
        if wanted.words:
            found = found.replace(" WHERE ", f" {_WITH_WORDS} WHERE ") + f" AND {_WORDS}"
        return [found]
    if wanted.words:
        return [f"{_DIGESTS} WHERE d.run_id = r.run AND {_WORDS}"]
    of_run = f"{_GROUPS} WHERE g.run_id = r.run"
    states, flags = wanted.only("state"), wanted.only("is")
    if (
        wanted.only("reason")
        or (states and states.values == (ItemState.DROPPED,))
        or (flags and flags.values == (Flag.STALE,))
    ):
        return [f"{of_run} AND g.state = 'dropped'"]
    return [f"{of_run} AND g.segment IS NOT NULL", f"{of_run} AND g.segment IS NULL"]


def _by_digest(
    wanted: SampleFilter,
    tests: dict[Term, str],
    *,
    after: Position | None,
    sign: str,
    direction: str,
) -> str:
    """Return the source of a list by score or length, from the digests."""
    value = _INDEXED[wanted.key]
    # Part of the source, not a later test: only a few of millions of rows have these.
    taken = [term for term in tests if term.name in ("batch", "tag", "prompt", wanted.key)]
    tables = _DIGESTS
    if any(term.name == "tag" for term in taken):
        tables += " LEFT JOIN buffer_groupmark m ON m.group_id = g.id"
    # Digests repeat two columns of their groups, for these indexes.
    source = f"""SELECT {_COLUMNS}, d.{value} AS sorted_by FROM {tables}
        WHERE d.run_id = r.run"""  # noqa: S608 made of constants
    for term in taken:
        source += f" AND {tests.pop(term).replace(f'g.{value}', f'd.{value}')}"
    if wanted.words:
        source += f" AND {_WORDS}"
    if after is not None:
        source += f" AND (d.{value}, d.group_id) {sign} (%(after_value)s::float8, %(after_id)s)"
    return f"{source} ORDER BY d.{value} {direction}, d.group_id {direction} LIMIT %(each)s"


def _cast(wanted: SampleFilter) -> str:
    return "::jsonb" if wanted.fact else ""


def _sort_value(wanted: SampleFilter, params: dict[str, Any], *, is_descending: bool) -> str | None:
    key = wanted.key
    if wanted.fact:
        return json_or_last(fact_value(wanted.fact, params), is_descending=is_descending)
    if key == "arrived":
        return None
    if key in _INDEXED:
        return "g.sorted_by"
    texts = {"env": "COALESCE(NULLIF(d.lesson, ''), e.wandb_name, '')", "state": "g.state"}
    numbers = {"version": "g.policy_step", "step": "b.ordinal", "solved": _SOLVED}
    if key in numbers:
        return or_last(numbers[key], is_descending=is_descending)
    return texts.get(key, "o.name")


def position_beside(run_id: int, group_id: int, wanted: SampleFilter) -> Position:
    """Return the position of a group in a list.

    Raises:
        GroupNotFound: If the run has no such group.
    """
    params: dict[str, Any] = {"run": run_id, "group": group_id}
    value = _sort_value(wanted, params, is_descending=wanted.is_descending) or "NULL"
    value = value.replace("g.sorted_by", f"g.{_INDEXED.get(wanted.key, '')}")
    if _cast(wanted):
        value += "::text"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {value}, g.id FROM buffer_trajectorygroup g {_JOINED}"  # noqa: S608
            " WHERE g.id = %(group)s AND g.run_id = %(run)s",
            params,
        )
        row = cursor.fetchone()
    if row is None:
        raise GroupNotFound(f"the run has no group {group_id}")
    return Position(*row)


def group_row(run_id: int, group_id: int) -> GroupRow:
    """Return a group of a run.

    Raises:
        GroupNotFound: If the run has no such group.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ONE, {"run": run_id, "group": group_id})
        row = cursor.fetchone()
    if row is None:
        raise GroupNotFound(f"the run has no group {group_id}")
    return GroupRow(*row)


def digest_lag(run_id: int) -> int:
    """Return the number of groups with bytes that are not digested yet, up to 10,000."""
    cursor = DigestCursor.objects.filter(run_id=run_id).first()
    place = ("0", 0) if cursor is None else (str(cursor.written_in), cursor.item_id)
    with connection.cursor() as sql:
        sql.execute(
            SQL["count_undigested"], {"run": run_id, "written_in": place[0], "item": place[1]}
        )
        (behind,) = sql.fetchone()
    return int(behind)


def partly_searchable(runs: Sequence[int]) -> int:
    """Return the number of groups with text that no search finds, up to :data:`COUNTED`."""
    with connection.cursor() as sql:
        sql.execute(SQL["count_partly_searchable"], {"runs": list(runs), "limit": COUNTED})
        (groups,) = sql.fetchone()
    return int(groups)
