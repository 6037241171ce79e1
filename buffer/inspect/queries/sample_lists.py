"""Bounded lists of the samples of one or more runs.

A list consists of a *source*, a bounded number of rows of each run in index order, and of *tests*
that filter them. A query with few matches therefore costs no more than one that matches every row.
Where the rows of a run are cut off, the rows of all runs count only up to the first such cut (the
*horizon*): beyond it, rows of the cut run are unknown. Each term of a filter is one condition in
SQL. It belongs to the source if an index serves it, else to the tests.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import DatabaseError, connection, transaction
from psycopg.errors import QueryCanceled

from buffer.inspect.rules.sample_filter import Position
from runs.search.rules import Term
from web.rules.errors import Unavailable

_STATEMENT_TIMEOUT_MS: Final = 5000
EACH_RUN: Final = """
    SELECT c.* FROM unnest(%(runs)s::bigint[]) AS r(run) CROSS JOIN LATERAL ({rows}) c"""
_RUN: Final = re.compile(r"\br\.run\b")
# Older samples have earlier times, so comparisons of ages are reversed.
_CASTS: Final = {float: "::float8", bool: "::boolean", str: "::text"}
_TURNED: Final = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
FEWEST, MOST = "'-1e300'::float8", "'1e300'::float8"


class SearchTooSlow(Unavailable):
    """A query exceeded its time limit; the message suggests how to narrow it."""

    code = "search_too_slow"
    title = "The search takes too long"


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
                "use rarer words or filter by run or batch"
            ) from error
        raise


NAMED_RUNS_AT_MOST: Final = 16
"""Number of runs that the planner knows by id, and so their share of an index."""


def rows_of_runs(rows: str, runs: Sequence[int], params: dict[str, Any]) -> str:
    """Return the rows of each of some runs, from a query of those of `r.run`; add its parameters.

    With a few runs, each is a constant: the planner then expects few rows of rare words, and reads
    those of the only run in their order until a page is full.
    """
    if not 0 < len(runs) <= NAMED_RUNS_AT_MOST:
        return EACH_RUN.format(rows=rows)
    params |= {f"run_{place}": run for place, run in enumerate(runs)}
    named = [_RUN.sub(f"%(run_{place})s", rows) for place in range(len(runs))]
    return named[0] if len(named) == 1 else " UNION ALL ".join(f"({one})" for one in named)


Condition = Callable[[str, str], str]
"""Returns the SQL that a row meets an operator and a value, which is a parameter in SQL."""


def text(*expressions: str) -> Condition:
    """Return the condition of texts, of which one must match: whole, or in part."""

    def condition(operator: str, value: str) -> str:
        return " OR ".join(
            f"strpos(lower({each}), lower({value})) > 0" if operator == "~" else f"{each} = {value}"
            for each in expressions
        )

    return condition


def numeric(expression: str) -> Condition:
    """Return the condition of a number."""
    return lambda operator, value: f"{expression} {'=' if operator == ':' else operator} {value}"


def moment(expression: str) -> Condition:
    """Return the condition of a time."""
    return lambda operator, value: f"{expression} {operator} {value}"


def fact(name: str, params: dict[str, Any]) -> Condition:
    """Return the condition of a fact of a group ``d``, which may have several values."""
    value = fact_value(name, params)

    def condition(operator: str, other: str) -> str:
        if operator == "~":
            return f"strpos(lower({value} #>> '{{}}'), lower({other})) > 0"
        if operator in _TURNED:
            # A value of another type is neither less nor greater.
            return (
                f"jsonb_path_exists({value}, '$[*] ? (@ {operator} $other)',"
                f" jsonb_build_object('other', {other}))"
            )
        return f"{value} @> to_jsonb({other})"

    return condition


def fact_value(name: str, params: dict[str, Any]) -> str:
    """Return the SQL of a fact of a group ``d``, NULL if it has none; add its parameter."""
    key = f"fact_{name.encode().hex()}"
    params[key] = name
    return f"(d.facts -> %({key})s)"


def tests_of(
    terms: Sequence[Term],
    conditions: Mapping[str, Condition],
    params: dict[str, Any],
    *,
    now: datetime,
) -> dict[Term, str]:
    """Return the condition in SQL of each term; add its parameters."""
    found = {}
    for index, term in enumerate(terms):
        alternatives = []
        for place, value in enumerate(term.values):
            operator = term.operator
            if isinstance(value, timedelta):
                operator, value = _TURNED[operator], now - value
            name = f"term_{index}_{place}"
            params[name] = value
            condition = conditions.get(term.name) or fact(term.name, params)
            cast = _CASTS.get(type(value), "")
            alternatives.append(f"({condition(operator, f'%({name})s{cast}')})")
        met = " OR ".join(alternatives)
        found[term] = f"({met}) IS NOT TRUE" if term.negated else f"({met})"
    return found


@dataclass(frozen=True, slots=True)
class Listing:
    """SQL of a list: ``SELECT row FROM (source) g joined WHERE tests``."""

    row: str
    source: str
    """Query of the examined rows, at most ``%(each)s`` of each run, as ``g``."""
    joined: str
    tests: list[str]
    params: dict[str, Any]
    value: str | None
    """Sort value of a row; None if the list is by id."""
    cast: str
    """Cast of a sort value of a position, which is text for JSON; else empty."""
    is_descending: bool
    is_of_source: bool
    """Whether the source is in this order, so that a cut search continues at its end."""


@dataclass(frozen=True, slots=True)
class RawPage:
    """A page of rows, each followed by its sort value."""

    rows: list[tuple[Any, ...]]
    next: Position | None
    """Where the next page begins; None at the end of the list."""
    is_partial: bool
    """True if the page ends early because the search reached its row limit."""


def read_page(
    listing: Listing, *, limit: int, after: Position | None, is_bounded: bool, runs: int
) -> RawPage:
    """Return a page of a list.

    Args:
        listing: The list.
        limit: Maximum number of rows.
        after: Position of the last row of the previous page.
        is_bounded: Whether examined rows may not match, so that the source may be cut off.
        runs: Number of its runs.

    Raises:
        SearchTooSlow: If the database takes too long.
    """
    value, params = listing.value, listing.params | {"limit": limit + 1}
    sign, direction = ("<", "DESC") if listing.is_descending else (">", "ASC")
    tests = list(listing.tests)
    if after is not None and value is not None and not listing.is_of_source:
        tests.append(f"({value}, g.id) {sign} (%(after_value)s{listing.cast}, %(after_id)s)")
    keys = ["g.id"] if value is None else [value, "g.id"]
    order = ", ".join(f"{key} {direction}" for key in keys)
    with bounded_cursor() as cursor:
        cut = None
        if is_bounded and listing.is_of_source and runs > 1:
            cut = _horizon(cursor, listing, params)
            if cut is not None:
                params |= {f"end_{place}": one for place, one in enumerate(cut)}
                ends = ", ".join(f"%(end_{place})s" for place in range(len(cut)))
                until = ">=" if listing.is_descending else "<="
                tests.append(f"({', '.join(keys)}) {until} ({ends})")
        cursor.execute(
            f"""SELECT {listing.row}, {f"{value}::text" if listing.cast else value or "NULL"}, g.id
            FROM ({listing.source}) g {listing.joined}
            WHERE {" AND ".join(tests) or "TRUE"} ORDER BY {order} LIMIT %(limit)s""",  # noqa: S608
            params,
        )
        rows = cursor.fetchall()
        if len(rows) > limit:
            rows = rows[:limit]
            return RawPage(rows, Position(*rows[-1][-2:]), is_partial=False)
        if is_bounded and (runs == 1 or not listing.is_of_source):
            cut = _horizon(cursor, listing, params)
    if cut is None:
        return RawPage(rows, None, is_partial=False)
    end = Position(*((None, *cut) if value is None else cut)) if listing.is_of_source else None
    return RawPage(rows, end, is_partial=True)


def _horizon(cursor: Any, listing: Listing, params: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return the sort values at which the rows of the first cut run end; None without a cut."""
    columns = "sorted_by, id" if listing.value and listing.is_of_source else "id"
    is_descending = listing.is_descending if listing.is_of_source else True
    direction, beyond = ("ASC", "DESC") if is_descending else ("DESC", "ASC")
    last, first = (
        ", ".join(f"{column} {way}" for column in columns.split(", "))
        for way in (direction, beyond)
    )
    cursor.execute(
        f"""SELECT {columns} FROM (
            SELECT {columns}, count(*) OVER (PARTITION BY run_id) AS examined,
                row_number() OVER (PARTITION BY run_id ORDER BY {last}) AS place
            FROM ({listing.source}) rows
        ) ends WHERE place = 1 AND examined >= %(each)s ORDER BY {first} LIMIT 1""",  # noqa: S608
        params,
    )
    found: tuple[Any, ...] | None = cursor.fetchone()
    return found


def rows_of_each(runs: int, *, limit: int, rows: int) -> int:
    """Return the number of rows to examine in each of some runs.

    At least one more than a page, so that a list without filters is never cut.
    """
    return max(limit + 1, rows // max(1, runs))


def json_or_last(value: str, *, is_descending: bool) -> str:
    """Return a JSON value, or if it is NULL, one that is last in the list."""
    return f"COALESCE({value}, '{'null' if is_descending else '{}'}'::jsonb)"


def or_last(expression: str, *, is_descending: bool) -> str:
    """Return a number, or if it is unknown, one that is last in the list."""
    return f"COALESCE({expression}::float8, {FEWEST if is_descending else MOST})"
