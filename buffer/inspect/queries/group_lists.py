"""Lists of a run's groups with their facets, from metadata only.

A list consists of a *source*, a bounded number of rows in index order, and of *tests* that filter
them. A query with few matches therefore costs no more than one that matches every row; the result
reports how far the search went. Each field of the filter is one condition in SQL. It belongs to
the source if an index serves it, else to the tests.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from django.db import DatabaseError, connection, transaction
from psycopg.errors import QueryCanceled

from buffer.inspect.models import DigestCursor
from buffer.inspect.rules.group_digest import run_term
from buffer.inspect.rules.group_filter import Flag, GroupFilter, ListPosition, Sort
from buffer.inspect.schemas import GroupRow, ScoreBins
from buffer.items.rules.states import STALE_REASONS, ItemState
from web.rules.errors import NotFound, Unavailable
from web.sql import statements_of

SQL: Final = statements_of("buffer")


_COLUMNS: Final = """g.id, g.run_id, g.state, g.drop_reason, g.batch_id, g.position, g.epoch,
    g.policy_step, g.env_id, g.received_at, g.size_bytes, g.codec, g.segment, g.origin,
    g.sequences, g.tokens, g.longest_tokens, g.score_mean, g.score_min, g.score_max, g.score_std,
    g.producer"""
_GROUPS: Final = "buffer_trajectorygroup g"
_DIGESTS: Final = "buffer_groupdigest d JOIN buffer_trajectorygroup g ON g.id = d.group_id"
_MARKS: Final = "buffer_groupmark m JOIN buffer_trajectorygroup g ON g.id = m.group_id"
JOINED: Final = """LEFT JOIN buffer_groupdigest d ON d.group_id = g.id
    LEFT JOIN buffer_groupmark m ON m.group_id = g.id
    LEFT JOIN buffer_batch b ON b.id = g.batch_id"""
WORKER: Final = "COALESCE(NULLIF(d.worker, ''), g.producer)"
VALUE_OF: Final = {
    Sort.SCORE: "score_mean",
    Sort.SCORE_ASCENDING: "score_mean",
    Sort.LENGTH: "longest_tokens",
    Sort.LENGTH_ASCENDING: "longest_tokens",
}
_STALE: Final = ", ".join(f"'{reason}'" for reason in sorted(STALE_REASONS))
FLAGS: Final = {
    Flag.TRUNCATED: "d.truncated > 0",
    Flag.ZERO_VARIANCE: "g.sequences > 1 AND g.score_min = g.score_max",
    Flag.DUPLICATE: "d.duplicates > 0",
    Flag.STALE: f"g.drop_reason IN ({_STALE})",
    Flag.QUARANTINED: f"g.state = '{ItemState.QUARANTINED}'",
}


@dataclass(frozen=True, slots=True)
class ListQuery:
    """SQL of a list: ``SELECT … FROM (source) g`` with :data:`JOINED`, filtered by `tests`."""

    source: str
    tests: dict[str, str]
    """Conditions on a row ``g``, its digest ``d``, mark ``m`` and batch ``b``, by field."""
    order: str
    params: dict[str, Any]


def list_query(
    run_id: int,
    group_filter: GroupFilter,
    *,
    rows: int,
    after: ListPosition | None,
    backward: bool = False,
) -> ListQuery:
    """Return the query of a list, which reads at most `rows` groups of a run.

    Args:
        run_id: The run.
        group_filter: The filter; its sort and fields select the index.
        rows: Maximum number of rows.
        after: Position after which the rows begin; None for the beginning.
        backward: Whether to read in reverse order, beginning before `after`.
    """
    params: dict[str, Any] = {"run": run_id, "rows": rows, "run_term": f"'{run_term(run_id)}'"}
    tests = _conditions(group_filter, params)
    is_ascending = group_filter.sort in (Sort.SCORE_ASCENDING, Sort.LENGTH_ASCENDING)
    sign, direction = (">", "ASC") if is_ascending is not backward else ("<", "DESC")
    if after is not None:
        params |= {"after_value": after.value, "after_id": after.group_id}
    if group_filter.sort is not Sort.NEWEST:
        return _sorted(group_filter, tests, params, after=after, sign=sign, direction=direction)
    beyond = "" if after is None else f" AND g.id {sign} %(after_id)s"
    # Each part has its own LIMIT: otherwise the planner sorts all rows instead of using the index.
    end = f"ORDER BY id {direction} LIMIT %(rows)s"
    parts = [
        f"SELECT {_COLUMNS} FROM {source}{beyond} {end}"  # noqa: S608 made of constants
        for source in _sources(group_filter, tests)
    ]
    source = parts[0]
    if len(parts) > 1:
        source = f"{' UNION ALL '.join(f'({part})' for part in parts)} {end}"
    return ListQuery(source, tests, f"g.id {direction}", params)


def _sources(group_filter: GroupFilter, tests: dict[str, str]) -> list[str]:
    """Return the tables and conditions of the newest groups, and take these out of the tests."""
    # Marked groups are few compared to the run, so filters on marks find groups of any age.
    for name, tables, of_run in (
        ("batch", _GROUPS, "g.run_id"),
        ("label", _MARKS, "m.run_id"),
        ("mark", _MARKS, "m.run_id"),
        ("prompt", _DIGESTS, "d.run_id"),
        ("text", _DIGESTS, "d.run_id"),
    ):
        if name in tests:
            return [f"{tables} WHERE {of_run} = %(run)s AND {tests.pop(name)}"]
    of_run = f"{_GROUPS} WHERE g.run_id = %(run)s"
    if (
        group_filter.states == (ItemState.DROPPED,)
        or group_filter.reasons
        or Flag.STALE in group_filter.flags
    ):
        return [f"{of_run} AND g.state = 'dropped'"]
    return [f"{of_run} AND g.segment IS NOT NULL", f"{of_run} AND g.segment IS NULL"]


def _sorted(
    group_filter: GroupFilter,
    tests: dict[str, str],
    params: dict[str, Any],
    *,
    after: ListPosition | None,
    sign: str,
    direction: str,
) -> ListQuery:
    """Return the query of a list by score or length, from the digests."""
    value = VALUE_OF[group_filter.sort]
    tables = _DIGESTS
    if "label" in tests or "mark" in tests:
        tables += " JOIN buffer_groupmark m ON m.group_id = g.id AND m.run_id = d.run_id"
    source = f"""SELECT {_COLUMNS}, d.{value} AS sorted_by FROM {tables}
        WHERE d.run_id = %(run)s"""  # noqa: S608 made of constants
    # Part of the source, not a later test: only a few of millions of rows have these.
    range_of_value = "score" if value == "score_mean" else "length"
    for name in ("batch", "label", "mark", "prompt", range_of_value):
        source += f" AND {tests.pop(name)}" if name in tests else ""
    if after is not None:
        kind = "float8" if value == "score_mean" else "int"
        source += f" AND (d.{value}, d.group_id) {sign} (%(after_value)s::{kind}, %(after_id)s)"
    source += f" ORDER BY d.{value} {direction}, d.group_id {direction} LIMIT %(rows)s"
    return ListQuery(source, tests, f"g.sorted_by {direction}, g.id {direction}", params)


def _conditions(group_filter: GroupFilter, params: dict[str, Any]) -> dict[str, str]:
    """Return the condition of each field of the filter that is set; add its parameters."""
    found: dict[str, str] = {}
    for name, expression, values in (
        ("env", "COALESCE(g.env_id, -1)", group_filter.env_ids),
        ("lesson", "d.lesson", group_filter.lessons),
        ("worker", WORKER, group_filter.workers),
        ("state", "g.state", group_filter.states),
        ("reason", "g.drop_reason", group_filter.reasons),
        ("label", "m.label", group_filter.labels),
    ):
        if values:
            params[name] = list(values)
            found[name] = f"{expression} = ANY(%({name})s)"
    # Digests repeat two columns of their groups, for the indexes of sorted lists.
    indexed = "g" if group_filter.sort is Sort.NEWEST else "d"
    for name, expression, span in (
        ("version", "g.policy_step", group_filter.versions),
        ("step", "b.ordinal", group_filter.steps),
        ("score", f"{indexed}.score_mean", group_filter.scores),
        ("length", f"{indexed}.longest_tokens", group_filter.lengths),
    ):
        ends = [(">=", "least", span.least), ("<=", "most", span.most)]
        params |= {f"{name}_{end}": bound for _, end, bound in ends if bound is not None}
        if not span.is_open:
            found[name] = " AND ".join(
                f"{expression} {sign} %({name}_{end})s"
                for sign, end, bound in ends
                if bound is not None
            )
    if group_filter.flags:
        found["flag"] = " AND ".join(f"({FLAGS[Flag(flag)]})" for flag in group_filter.flags)
    if group_filter.is_noted:
        found["mark"] = "m.note <> ''"
    for name, condition, value in (
        ("batch", "g.batch_id = %(batch)s", group_filter.batch),
        ("prompt", "d.prompt = %(prompt)s", group_filter.prompt),
        (
            "text",
            "d.words @@ (websearch_to_tsquery('simple', %(text)s) && %(run_term)s::tsquery)",
            group_filter.text,
        ),
    ):
        if value:
            params[name] = value
            found[name] = condition
    return found


ROWS_EXAMINED: Final = 50_000
"""Maximum number of groups that one page searches."""
_STATEMENT_TIMEOUT_MS: Final = 5000
# The columns of a `GroupRow`, in its order.
_ROW: Final = """g.id, g.state, g.drop_reason, g.env_id, COALESCE(d.lesson, ''),
    COALESCE(d.worker, ''), COALESCE(d.example, ''), g.producer, g.epoch, g.policy_step,
    b.ordinal, g.position, g.received_at, g.size_bytes, g.sequences, g.tokens, g.longest_tokens,
    g.score_mean, g.score_min, g.score_max, g.score_std, COALESCE(d.scores, '{{}}'),
    COALESCE(d.lengths, '{{}}'), array_remove(ARRAY[{flags}], NULL), COALESCE(d.excerpt, ''),
    COALESCE(d.answer, ''), d.group_id IS NOT NULL, g.segment IS NOT NULL,
    COALESCE(replace(d.prompt::text, '-', ''), ''), g.batch_id, g.codec, g.origin,
    COALESCE(d.truncated, 0), COALESCE(d.duplicates, 0)""".format(
    flags=", ".join(f"CASE WHEN {test} THEN '{flag}' END" for flag, test in FLAGS.items())
)
_ONE: Final = f"""
    SELECT {_ROW} FROM buffer_trajectorygroup g {JOINED}
    WHERE g.id = %(group)s AND g.run_id = %(run)s"""  # noqa: S608


class GroupNotFound(NotFound):
    """The run has no such group."""


class SearchTooSlow(Unavailable):
    """A query exceeded its time limit; the message suggests how to narrow it."""

    code = "search_too_slow"
    title = "The search takes too long"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """A page of a list."""

    rows: list[GroupRow]
    next: ListPosition | None
    """Position of the end of the page; None at the end of the list."""
    is_partial: bool
    """True if the page ends early because the search reached its row limit."""


def group_page(
    run_id: int,
    group_filter: GroupFilter,
    *,
    limit: int,
    after: ListPosition | None = None,
    backward: bool = False,
) -> GroupPage:
    """Return a page of groups after a position or, if `backward`, before it, nearest first.

    Raises:
        SearchTooSlow: If the database takes too long.
    """
    found = list_query(run_id, group_filter, rows=ROWS_EXAMINED, after=after, backward=backward)
    query = f"""
        SELECT {_ROW} FROM ({found.source}) g {JOINED}
        WHERE {" AND ".join(found.tests.values()) or "TRUE"}
        ORDER BY {found.order} LIMIT %(limit)s"""  # noqa: S608 made here
    with bounded_cursor() as cursor:
        cursor.execute(query, found.params | {"limit": limit + 1})
        rows = [GroupRow(*row) for row in cursor.fetchall()]
        if len(rows) > limit:
            rows = rows[:limit]
            return GroupPage(
                rows=rows, next=list_position(rows[-1], group_filter), is_partial=False
            )
        # The last group of the source, if the search was cut off there.
        value = VALUE_OF.get(group_filter.sort, "NULL")
        cursor.execute(
            f"SELECT {value}, id FROM ({found.source}) g OFFSET {ROWS_EXAMINED - 1}",  # noqa: S608
            found.params,
        )
        last = cursor.fetchone()
    return GroupPage(
        rows=rows,
        next=None if last is None else ListPosition(*last),
        is_partial=last is not None,
    )


def list_position(row: GroupRow, group_filter: GroupFilter) -> ListPosition:
    """Return the position of a row in a list."""
    if group_filter.sort is Sort.NEWEST:
        return ListPosition(None, row.id)
    return ListPosition(float(getattr(row, VALUE_OF[group_filter.sort])), row.id)


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


def partly_searchable(run_id: int) -> int:
    """Return the number of groups with text that no search finds, up to :data:`COUNTED`."""
    with connection.cursor() as sql:
        sql.execute(SQL["count_partly_searchable"], {"run": run_id, "limit": COUNTED})
        (groups,) = sql.fetchone()
    return int(groups)


@contextmanager
def bounded_cursor() -> Iterator[Any]:
    """Provide a database cursor with a statement timeout of 5 s.

    Raises:
        SearchTooSlow: If a statement exceeds the timeout.
    """
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {_STATEMENT_TIMEOUT_MS}")
            # JIT compilation and parallel workers cost more than the query itself.
            cursor.execute("SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0")
            yield cursor
    except DatabaseError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise SearchTooSlow(
                f"the search exceeded {_STATEMENT_TIMEOUT_MS // 1000} s: "
                "use rarer words or filter by batch"
            ) from error
        raise


COUNTED: Final = 10_000
"""Number of newest groups that facets count."""
BINS: Final = 24
MOST_VALUES: Final = 40
# Facets and the SQL expressions of their values.
_VALUES: Final = {
    "env": "COALESCE(g.env_id, -1)::text",
    "lesson": "d.lesson",
    "worker": WORKER,
    "state": "g.state",
    "reason": "NULLIF(g.drop_reason, '')",
}
_NUMBERS: Final = {
    "score": "g.score_mean",
    "length": "g.longest_tokens::float8",
    "version": "g.policy_step::float8",
    "step": "b.ordinal::float8",
}


@dataclass(frozen=True, slots=True)
class Facets:
    """Facet counts of a run's newest groups.

    Each facet counts the groups that match all conditions except those on the facet itself.
    """

    examined: int
    """Number of groups examined; all groups if less than :data:`COUNTED`."""
    matching: int
    """Number of examined groups that match the filter."""
    oldest_at: datetime | None
    """Arrival time of the oldest examined group."""
    values: dict[str, dict[str, int]] = field(default_factory=dict)
    histograms: dict[str, ScoreBins] = field(default_factory=dict)


def facets(run_id: int, group_filter: GroupFilter) -> Facets:
    """Return the facets of a list, from the newest :data:`COUNTED` groups in any sort order.

    Raises:
        SearchTooSlow: If the database takes too long.
    """
    group_filter = replace(group_filter, sort=Sort.NEWEST)
    found = list_query(run_id, group_filter, rows=COUNTED, after=None)
    with bounded_cursor() as cursor:
        cursor.execute(_query(found.source, found.tests), found.params)
        rows = cursor.fetchall()
    values: dict[str, dict[str, int]] = {name: {} for name in (*_VALUES, "flag")}
    bins: dict[str, dict[int, int]] = defaultdict(dict)
    scales: dict[str, tuple[float, float]] = {}
    examined, matching, oldest_at = 0, 0, None
    for facet, value, count, first, second, at in rows:
        if facet == "all":
            examined, matching, oldest_at = count, int(first), at
        elif facet in _NUMBERS and value is not None:
            bins[facet][int(value)] = count
            scales[facet] = (first, second)
        elif value:
            values[facet][value] = count
    return Facets(
        examined,
        matching,
        oldest_at,
        values={
            name: dict(sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:MOST_VALUES])
            for name, counts in values.items()
        },
        histograms={
            name: ScoreBins(
                least=least,
                most=most,
                counts=[bins[name].get(place, 0) for place in range(1, BINS + 1)],
            )
            for name, (least, most) in scales.items()
        },
    )


def _query(source: str, tests: dict[str, str]) -> str:
    columns = [f"{value} AS {name}" for name, value in (_VALUES | _NUMBERS).items()]
    columns += [f"({test}) AS meets_{name}" for name, test in tests.items()]
    columns += [f"({test}) AS is_{name}" for name, test in FLAGS.items()]
    parts = [
        f"""SELECT 'all', '', count(*), count(*) FILTER (WHERE {_meets(tests)})::float8,
            NULL::float8, min(received_at) FROM seen"""  # noqa: S608 made of constants
    ]
    parts += [
        f"""SELECT '{name}', {name}, count(*), NULL, NULL, NULL FROM seen
            WHERE {_meets(tests, but=name)} GROUP BY {name}"""  # noqa: S608
        for name in _VALUES
    ]
    flags = ", ".join(f"('{name}', is_{name})" for name in FLAGS)
    parts.append(
        f"""SELECT 'flag', name, count(*), NULL, NULL, NULL
            FROM seen, LATERAL (VALUES {flags}) AS flags(name, is_so)
            WHERE is_so AND {_meets(tests, but="flag")} GROUP BY name"""  # noqa: S608
    )
    # The scale of a histogram ignores the filter.
    parts += [
        f"""(
        WITH scale AS (
            SELECT min({name}) AS least, max({name}) AS most FROM seen
            WHERE abs({name}) < 'Infinity'
        )
        SELECT '{name}', CASE WHEN least < most
            THEN least(width_bucket({name}, least, most, {BINS}), {BINS}) ELSE 1 END::text,
            count(*), least, most, NULL::timestamptz
        FROM seen, scale WHERE abs({name}) < 'Infinity' AND {_meets(tests, but=name)}
        GROUP BY 2, least, most)"""  # noqa: S608
        for name in _NUMBERS
    ]
    return f"""
        WITH seen AS MATERIALIZED (
            SELECT g.received_at, {", ".join(columns)} FROM ({source}) g {JOINED}
        ) {" UNION ALL ".join(parts)}"""  # noqa: S608


def _meets(tests: dict[str, str], *, but: str = "") -> str:
    return " AND ".join(f"meets_{name}" for name in tests if name != but) or "TRUE"
