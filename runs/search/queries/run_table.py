"""Read the list of runs, filtered, sorted and paginated."""

import csv
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db import connection
from django.db.models import Q, QuerySet, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

from runs.lifecycle.models.runs import Run
from runs.lifecycle.queries.summaries import summary_fields
from runs.search.queries.run_filters import filtered
from runs.search.rules.filter_qualifiers import QUALIFIERS
from runs.search.schemas import QualifierRow, RunList, RunRow, ValueRow
from web.live import parts
from web.rules.errors import Invalid
from web.rules.pages import PageRequest
from web.rules.texts import plain_cell

ROWS_AT_MOST: Final = 500
# Limits the cost of counting; larger counts are not shown exactly.
COUNTED_AT_MOST: Final = 10_000
EXPORTED_AT_MOST: Final = 100_000
VALUES_AT_MOST: Final = 20
Position = tuple[Any, int]
"""Sort value and id of a run."""


class Sort(NamedTuple):
    """Sort key of a list: a column, or an expression of another app."""

    column: str
    kind: type[Any]
    measure: Callable[[datetime], Combinable] | None = None
    """Returns `column` at a given time: an expression over :class:`Run`, a finite number or NULL,
    which sorts below all numbers.
    """


NOT_KNOWN: Final = -sys.float_info.max
"""Sort value of unknown values, below all known ones."""
SORTS: Final[dict[str, Sort]] = {
    "created": Sort("created_at", datetime),
    "changed": Sort("status_changed_at", datetime),
    "name": Sort("name", str),
    "step": Sort("served_steps", int),
    "policy": Sort("policy_step", int),
    "planned": Sort("num_steps", int),
}
"""Sort keys; :mod:`config.readers` adds those of the fleets."""
NEWEST_FIRST: Final = "-created"


class UnknownSort(Invalid):
    """The list does not have this sort key."""

    field = "sort"


def position_kind(sort: str) -> type[Position]:
    """Return the type of the positions of a list: its sort value, then the id of a run.

    Raises:
        UnknownSort: If the sort key is unknown.
    """
    column, _ = _sort(sort)
    return tuple[column.kind, int]  # type: ignore[name-defined]


def run_page(page: PageRequest[Position], *, text: str, sort: str, now: datetime) -> RunList:
    """Return one page of the runs that match a filter.

    Args:
        page: The requested page, with a position of :func:`position_kind`.
        text: A filter in the syntax of :mod:`runs.search.rules.filter_parsing`.
        sort: One of :data:`SORTS`, prefixed with a minus for descending order.
        now: Reference time of ages.

    Raises:
        InvalidFilter: If the filter is invalid.
        UnknownSort: If the sort key is unknown.
    """
    found = filtered(text, now=now)
    column, _ = _sort(sort)
    behind = _behind(found, sort, page.after, now=now).select_related("created_by", "project")
    rows, cursor = page.cut(
        behind[: page.limit + 1], lambda run: (getattr(run, column.column), run.pk)
    )
    total = found[: COUNTED_AT_MOST + 1].count() if page.after is None else None
    return RunList(results=run_rows(rows), next=cursor, total=total)


def _sort(sort: str) -> tuple[Sort, bool]:
    found = SORTS.get(sort.removeprefix("-"))
    if found is None:
        raise UnknownSort(f"unknown sort key {sort!r}; known: {', '.join(SORTS)}")
    return found, sort.startswith("-")


def _behind(
    found: QuerySet[Run], sort: str, after: Position | None, *, now: datetime
) -> QuerySet[Run]:
    (column, _, measure), backwards = _sort(sort)
    if measure is not None:
        found = found.annotate(**{column: Coalesce(measure(now), Value(NOT_KNOWN))})
    if after is not None:
        value, row_id = after
        side = "lt" if backwards else "gt"
        found = found.filter(
            Q(**{f"{column}__{side}": value}) | Q(**{column: value, f"pk__{side}": row_id})
        )
    return found.order_by(*(f"-{name}" if backwards else name for name in (column, "pk")))


def run_rows(rows: list[Run]) -> list[RunRow]:
    """Return runs for lists, with their environments."""
    names = environments_of([run.pk for run in rows])
    return [RunRow(**summary_fields(run), environment=names.get(run.pk)) for run in rows]


def environments_of(run_ids: list[int]) -> dict[int, str | None]:
    """Return the environment of each run, its lessons, or its registered environments."""
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


def activity_of(run_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return the summaries of runs: queue, fleet, returns."""
    found: dict[int, dict[str, Any]] = {run_id: {} for run_id in run_ids}
    for read in parts.RUN_ACTIVITY:
        for run_id, more in read(run_ids).items():
            found[run_id] |= more
    return found


def qualifiers() -> list[QualifierRow]:
    """Return the qualifiers of the filter language."""
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
    "project": """SELECT p.name AS value
        FROM runs_run r JOIN runs_project p ON p.id = r.project_id WHERE r.archived_at IS NULL""",
    "preset": "SELECT preset AS value FROM runs_run WHERE archived_at IS NULL AND preset <> ''",
    "name": "SELECT name AS value FROM runs_run WHERE archived_at IS NULL",
}
VALUES_OF: Final = tuple(_VALUES)


def filter_values(*, of: str, part: str) -> list[ValueRow]:
    """Return values of a qualifier that contain `part`, the most used first."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT value, COUNT(*) FROM ({_VALUES[of]}) v WHERE strpos(lower(value), %s) > 0"  # noqa: S608 texts of our own
            " GROUP BY value ORDER BY COUNT(*) DESC, value LIMIT %s",
            [part.lower(), VALUES_AT_MOST],
        )
        return [ValueRow(value=value, runs=runs) for value, runs in cursor.fetchall()]


CSV_COLUMNS: Final = (
    *("name", "kind", "status", "status_reason", "environment", "project", "tags", "created_by"),
    *("served_steps", "num_steps", "epoch", "policy_step", "num_workers", "batch_size"),
    *("created_at", "status_changed_at", "archived_at"),
)
# Summary columns by header; headers include units where needed.
CSV_SUMMARIES: Final = {
    "queued": "queued",
    "return_mean": "return_mean",
    "accepted_per_second": "accepted_per_second",
    "staleness_p50_versions": "staleness_p50",
}


def runs_csv(*, text: str, sort: str, now: datetime) -> Iterator[str]:
    """Yield the runs that match a filter as CSV lines.

    Raises:
        InvalidFilter: If the filter is invalid, before the first line.
        UnknownSort: If the sort key is unknown.
    """
    found = _behind(filtered(text, now=now), sort, None, now=now).select_related(
        "created_by", "project"
    )
    rows = found[:EXPORTED_AT_MOST]
    yield _line([*CSV_COLUMNS, *CSV_SUMMARIES])
    batch: list[Run] = []
    for run in rows.iterator(chunk_size=ROWS_AT_MOST):
        batch.append(run)
        if len(batch) == ROWS_AT_MOST:
            yield from _lines(batch)
            batch = []
    yield from _lines(batch)


def _lines(rows: list[Run]) -> Iterator[str]:
    beside = activity_of([row.pk for row in rows])
    for row in run_rows(rows):
        more = beside[row.id]
        own = [_cell(getattr(row, column)) for column in CSV_COLUMNS]
        yield _line([*own, *(_cell(more.get(name)) for name in CSV_SUMMARIES.values())])


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
