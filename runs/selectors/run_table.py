"""Read the list of runs: filtered, sorted, a page at a time."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db import connection
from django.db.models import Q, QuerySet, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

from runs.core.lifecycle import RunStatus, allowed_verbs
from runs.core.places import place_of, value_at
from runs.core.run_filter import QUALIFIERS
from runs.core.spreadsheets import plain_cell
from runs.live import parts as live_parts
from runs.models import Run
from runs.selectors.run_filters import filtered
from runs.wire import RunSummary
from runs.wire.run_lists import QualifierRow, RunList, RunRow, ValueRow

ROWS_AT_MOST: Final = 500
# Nobody reads a larger count, and it stays cheap however many runs there are.
COUNTED_AT_MOST: Final = 10_000
EXPORTED_AT_MOST: Final = 100_000
VALUES_AT_MOST: Final = 20


class Sort(NamedTuple):
    """What a list may be sorted by: a column, or what an app knows of a run."""

    column: str
    kind: type[Any]
    measure: Callable[[datetime], Combinable] | None = None
    """Gives the numbers behind `column` as of a moment."""


NOT_KNOWN: Final = -1.0
"""Stands for what is not known of a run: below every number that an app gives."""
SORTS: Final[dict[str, Sort]] = {
    "created": Sort("created_at", datetime),
    "changed": Sort("status_changed_at", datetime),
    "name": Sort("name", str),
    "step": Sort("served_steps", int),
    "policy": Sort("policy_step", int),
    "planned": Sort("num_steps", int),
}
NEWEST_FIRST: Final = "-created"


def add_sort(name: str, measure: Callable[[datetime], Combinable]) -> None:
    """Let lists be sorted by what an app knows of each run, a number from 0 or NULL.

    ``measure(now)`` returns it as an expression over :class:`Run`; NULL comes below all numbers.
    """
    SORTS[name] = Sort(f"by_{name}", float, measure)


class UnknownSort(ValueError):
    """A list cannot be sorted by this."""

    field = "sort"


def run_page(*, text: str, sort: str, after: str, limit: int, now: datetime) -> RunList:
    """Return one page of the runs that a filter asks for.

    Args:
        text: The filter, as :mod:`runs.core.run_filter` reads it.
        sort: One of :data:`SORTS`, behind a minus for the largest first.
        after: Place at which the page before ended; empty for the first page.
        limit: Rows at most.
        now: What ages are counted from.

    Raises:
        InvalidFilter: If the filter cannot be read.
        UnknownSort: If the list cannot be sorted so.
        InvalidPlace: If `after` is no place in this list.
    """
    found = filtered(text, now=now)
    column, _ = _sort(sort)
    rows = list(_behind(found, sort, after, now=now).select_related("created_by")[: limit + 1])
    rest, rows = rows[limit:], rows[:limit]
    total = found[: COUNTED_AT_MOST + 1].count() if not after else None
    return RunList(
        results=run_rows(rows),
        next=place_of(getattr(rows[-1], column.column), rows[-1].pk) if rest else None,
        total=total,
    )


def _sort(sort: str) -> tuple[Sort, bool]:
    found = SORTS.get(sort.removeprefix("-"))
    if found is None:
        raise UnknownSort(f"runs sort by {', '.join(SORTS)}, not by {sort!r}")
    return found, sort.startswith("-")


def _behind(found: QuerySet[Run], sort: str, after: str, *, now: datetime) -> QuerySet[Run]:
    (column, kind, measure), backwards = _sort(sort)
    if measure is not None:
        found = found.annotate(**{column: Coalesce(measure(now), Value(NOT_KNOWN))})
    if after:
        value, row_id = value_at(after, kind)
        side = "lt" if backwards else "gt"
        found = found.filter(
            Q(**{f"{column}__{side}": value}) | Q(**{column: value, f"pk__{side}": row_id})
        )
    return found.order_by(*(f"-{name}" if backwards else name for name in (column, "pk")))


def summary_fields(run: Run) -> dict[str, Any]:
    """Return what every shape of a run shows."""
    given = {field: getattr(run, field, None) for field in RunSummary.__struct_fields__}
    given["created_by"] = run.created_by.get_username() if run.created_by else None
    given["allowed_verbs"] = [str(verb) for verb in allowed_verbs(RunStatus(run.status))]
    return given


def run_rows(rows: list[Run]) -> list[RunRow]:
    """Return runs as lists show them, with what they roll out."""
    names = environments_of([run.pk for run in rows])
    return [RunRow(**summary_fields(run), environment=names.get(run.pk)) for run in rows]


def environments_of(run_ids: list[int]) -> dict[int, str | None]:
    """Return what each run rolls out: its environment, its lessons, or who registered."""
    configured = Run.objects.filter(pk__in=run_ids).values_list(
        "pk", "config__environment__spec", "config__language__lessons"
    )
    names = {pk: ", ".join(lessons) if lessons else spec for pk, spec, lessons in configured}
    bare = [pk for pk, name in names.items() if not name]
    registered = Run.objects.filter(pk__in=bare, environments__isnull=False).values_list(
        "pk", "environments__desired_name"
    )
    for pk, name in registered.order_by("pk", "environments__env_id"):
        others = (names[pk] or "").split(", ") if names[pk] else []
        if name not in others:
            names[pk] = ", ".join([*others, name])
    return names


def outlooks(run_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return what apps show beside each run in a list: queue, fleet, returns."""
    found: dict[int, dict[str, Any]] = {run_id: {} for run_id in run_ids}
    for read in live_parts.outlook_readers():
        for run_id, more in read(run_ids).items():
            found[run_id] |= more
    return found


def qualifiers() -> list[QualifierRow]:
    """Return what a filter may ask, for whoever helps people to write one."""
    return [
        QualifierRow(
            name=each.name,
            form=each.form.value,
            meaning=each.meaning,
            operators=list(each.operators),
            choices=list(each.choices),
            example=each.example,
        )
        for each in QUALIFIERS.values()
    ]


_VALUES: Final = {
    "tag": "SELECT unnest(tags) AS value FROM runs_run WHERE archived_at IS NULL",
    "env": "SELECT unnest(environment_words) AS value FROM runs_run WHERE archived_at IS NULL",
    "owner": """SELECT u.username AS value
        FROM runs_run r JOIN auth_user u ON u.id = r.created_by_id WHERE r.archived_at IS NULL""",
    "preset": "SELECT preset AS value FROM runs_run WHERE archived_at IS NULL AND preset <> ''",
    "name": "SELECT name AS value FROM runs_run WHERE archived_at IS NULL",
}
VALUES_OF: Final = tuple(_VALUES)


def filter_values(*, of: str, part: str) -> list[ValueRow]:
    """Return values that runs have for a qualifier and that hold `part`, the most used first."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT value, COUNT(*) FROM ({_VALUES[of]}) v WHERE strpos(lower(value), %s) > 0"  # noqa: S608 texts of our own
            " GROUP BY value ORDER BY COUNT(*) DESC, value LIMIT %s",
            [part.lower(), VALUES_AT_MOST],
        )
        return [ValueRow(value=value, runs=runs) for value, runs in cursor.fetchall()]


CSV_COLUMNS: Final = (
    *("name", "kind", "status", "status_reason", "environment", "tags", "created_by"),
    *("served_steps", "num_steps", "epoch", "policy_step", "num_workers", "batch_size"),
    *("created_at", "status_changed_at", "archived_at"),
)
# What apps say beside each run, by the head of its column: numbers of a file have units too.
CSV_OUTLOOKS: Final = {
    "queued": "queued",
    "return_mean": "return_mean",
    "accepted_per_second": "accepted_per_second",
    "staleness_p50_versions": "staleness_p50",
}


def runs_csv(*, text: str, sort: str, now: datetime) -> Iterator[str]:
    """Yield the runs that a filter asks for as lines of comma-separated values.

    Raises:
        InvalidFilter: If the filter cannot be read, before anything is yielded.
        UnknownSort: If the list cannot be sorted so.
    """
    found = _behind(filtered(text, now=now), sort, "", now=now).select_related("created_by")
    rows = found[:EXPORTED_AT_MOST]
    yield _line([*CSV_COLUMNS, *CSV_OUTLOOKS])
    batch: list[Run] = []
    for run in rows.iterator(chunk_size=ROWS_AT_MOST):
        batch.append(run)
        if len(batch) == ROWS_AT_MOST:
            yield from _lines(batch)
            batch = []
    yield from _lines(batch)


def _lines(rows: list[Run]) -> Iterator[str]:
    beside = outlooks([row.pk for row in rows])
    for row in run_rows(rows):
        more = beside[row.id]
        own = [_cell(getattr(row, column)) for column in CSV_COLUMNS]
        yield _line([*own, *(_cell(more.get(name)) for name in CSV_OUTLOOKS.values())])


def _cell(value: Any) -> str:
    if isinstance(value, list):
        value = " ".join(value)
    if isinstance(value, str):
        return plain_cell(value)
    return "" if value is None else value.isoformat() if isinstance(value, datetime) else str(value)


def _line(cells: Any) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()
