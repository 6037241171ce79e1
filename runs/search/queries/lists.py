"""Lists of runs: filters, sort keys and rows."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec
from django.db import connection
from django.db.models import (
    F,
    FloatField,
    Func,
    JSONField,
    Q,
    QuerySet,
    TextField,
    Value,
)
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast, NullIf

from runs.lifecycle.models import Run
from runs.lifecycle.queries import summary_fields
from runs.lifecycle.rules import ACTIVE, TERMINAL
from runs.projects.rules import is_project_uid
from runs.search.queries import columns
from runs.search.rules import Qualifier, parse
from runs.search.schemas import (
    LiveRunRow,
    QualifierRow,
    RunActivity,
    RunList,
    RunRow,
    ValueRow,
)
from web.live import parts
from web.rules.errors import Invalid
from web.rules.pages import PageRequest
from web.rules.texts import plain_cell

# Translate run filters into database queries.

_COLUMNS: Final = {
    "step": "served_steps",
    "planned": "num_steps",
    "policy": "policy_step",
    "epoch": "epoch",
    "workers": "num_workers",
    "batch": "batch_size",
}
_TIMES: Final = {"created": "created_at", "changed": "status_changed_at"}
_TEXTS: Final = {
    "name": "name",
    "owner": "created_by__username",
    "preset": "preset",
    "project": "project__name",
}
_LISTS: Final = {"tag": "tags", "env": "environment_words"}
_CHOICES: Final = {"state": "status", "kind": "kind"}
_LOOKUPS: Final = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
# Older runs have earlier times, so comparisons of ages are reversed.
_TURNED: Final = {">": "lt", ">=": "lte", "<": "gt", "<=": "gte"}
_IS: Final[dict[str, Callable[[], Q]]] = {
    "active": lambda: Q(status__in=ACTIVE),
    "over": lambda: Q(status__in=TERMINAL),
    "archived": lambda: Q(archived_at__isnull=False),
    "unbalanced": lambda: ~Q(ledger_problem=""),
}


def filtered(text: str, *, now: datetime) -> QuerySet[Run]:
    """Return the runs that match a filter; archived ones only if it names them.

    Raises:
        InvalidFilter: If a word is invalid.
    """
    terms = parse(text)
    found = Run.objects.all()
    if not any(term.name == "is" and "archived" in term.values for term in terms):
        found = found.filter(archived_at=None)
    for term in terms:
        condition = Q(pk__in=[])
        for value in term.values:
            condition |= _condition(term.name, term.operator, value, now)
        found = found.exclude(condition) if term.negated else found.filter(condition)
    return found


def _condition(name: str, operator: str, value: Any, now: datetime) -> Q:
    """Return the condition that a run meets one of the values of a term."""
    if name == "is":
        return _IS[value]()
    if name in _CHOICES:
        return Q(**{_CHOICES[name]: value})
    if name in _LISTS:
        column = _LISTS[name]
        if operator != "~":
            return Q(**{f"{column}__overlap": [value.lower()]})
        joined = Func(F(column), Value("\n"), function="array_to_string", output_field=TextField())
        return Q(pk__in=Run.objects.annotate(words=joined).filter(words__icontains=value))
    if name == "project" and is_project_uid(value):
        return Q(project__uid=value)
    if name in _TEXTS:
        return Q(**{f"{_TEXTS[name]}__{'icontains' if operator == '~' else 'iexact'}": value})
    if isinstance(value, timedelta):  # an age
        return Q(**{f"{_TIMES[name]}__{_TURNED[operator]}": now - value})
    column = _TIMES[name] if name in _TIMES else _COLUMNS[name]
    if operator in _LOOKUPS:
        return Q(**{f"{column}__{_LOOKUPS[operator]}": value})
    return Q(**{column: int(value)}) if value == int(value) else Q(pk__in=[])


# Read the list of runs, filtered, sorted and paginated, and the activity of runs and projects.

ROWS_AT_MOST: Final = 500
# Limits the cost of counting; larger counts are not shown exactly.
COUNTED_AT_MOST: Final = 10_000
EXPORTED_AT_MOST: Final = 100_000
VALUES_AT_MOST: Final = 20
Position = tuple[Any, int]
"""Sort value and id of a run; the value is None in runs without one."""


class Sort(NamedTuple):
    """Sort key of a list: a column, or an expression of another app."""

    column: str
    kind: type[Any]
    measure: Callable[[datetime], Combinable] | None = None
    """Returns `column` at a given time: an expression over :class:`Run`, NULL where unknown."""


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
    return tuple[column.kind | None, int]  # type: ignore[name-defined]


def run_page(
    page: PageRequest[Position],
    *,
    text: str,
    sort: str,
    named: Sequence[str] = (),
    now: datetime,
) -> RunList:
    """Return one page of the runs that match a filter.

    Args:
        page: The requested page, with a position of :func:`position_kind`.
        text: A filter in the syntax of :mod:`runs.search.rules`.
        sort: One of :data:`SORTS` or a column, prefixed with a minus for descending order.
        named: Names of further columns, such as ``config.buffer.batch_size``.
        now: Reference time of ages.

    Raises:
        InvalidFilter: If the filter is invalid.
        InvalidColumns: If a column is unknown, or there are too many.
        UnknownSort: If the sort key is unknown.
    """
    if len(named) > columns.AT_MOST:
        raise columns.InvalidColumns(f"{len(named)} columns, at most {columns.AT_MOST} allowed")
    values = {f"column_{index}": columns.measure(column) for index, column in enumerate(named)}
    for column, value in zip(named, values.values(), strict=True):
        if value is None:
            raise columns.InvalidColumns(columns.unknown(column))
    found = filtered(text, now=now)
    behind = _behind(found, sort, page.after, now=now).select_related("created_by", "project")
    rows, cursor = page.cut(
        behind.annotate(**values)[: page.limit + 1], lambda run: (vars(run)["sort_value"], run.pk)
    )
    # A column without a value on the page may have one elsewhere.
    for name, column in zip(values, named, strict=True):
        if all(getattr(run, name) is None for run in rows) and not columns.exists(column):
            raise columns.InvalidColumns(columns.unknown(column))
    key = sort.removeprefix("-")
    if (
        key not in SORTS
        and (not rows or vars(rows[0])["sort_value"] is None)
        and not columns.exists(key)
    ):
        raise UnknownSort(columns.unknown(key))
    total = found[: COUNTED_AT_MOST + 1].count() if page.after is None else None
    results = run_rows(rows)
    if named:
        results = [
            msgspec.structs.replace(
                row,
                columns={
                    column: columns.written(getattr(run, name))
                    for name, column in zip(values, named, strict=True)
                },
            )
            for run, row in zip(rows, results, strict=True)
        ]
    return RunList(results=results, next=cursor, total=total)


def _sort(sort: str) -> tuple[Sort, bool]:
    name, is_descending = sort.removeprefix("-"), sort.startswith("-")
    if name in SORTS:
        return SORTS[name], is_descending
    value = columns.measure(name)
    if value is None:
        raise UnknownSort(
            f"unknown sort key {sort[: columns.NAME_LENGTH]!r}; known: {', '.join(SORTS)}, "
            f"{', '.join(f'{source}.<name>' for source in columns.SOURCES)}"
        )
    return Sort(
        "sorted_by", columns.SOURCES[name.partition(".")[0]].kind, lambda _now: value
    ), is_descending


def _behind(
    found: QuerySet[Run], sort: str, after: Position | None, *, now: datetime
) -> QuerySet[Run]:
    """Return the runs after a position in order, each with its `sort_value`; missing values last.

    NaN is a missing value. A JSON value is positioned by its text, which keeps all digits.
    """
    (column, kind, measure), is_descending = _sort(sort)
    is_missing = Q()
    if measure is not None:
        value = measure(now)
        if kind is float:
            value = NullIf(value, Value(math.nan, output_field=FloatField()))
        found = found.annotate(**{column: value})
        is_missing = Q(**{f"{column}__isnull": True})
    is_json = sort.removeprefix("-").startswith("config.")
    found = found.annotate(sort_value=Cast(column, TextField()) if is_json else F(column))
    if after is not None:
        last, row_id = after
        side = "lt" if is_descending else "gt"
        later = Q(**{f"pk__{side}": row_id})
        if last is None:
            found = found.filter(is_missing & later)
        else:
            bound = Cast(Value(last), JSONField()) if is_json else last
            same = Q(**{column: bound}) & later
            found = found.filter(Q(**{f"{column}__{side}": bound}) | same | is_missing)
    # Columns of the table have an index and no missing values.
    nulls_last = True if measure is not None else None
    keys = (F(column), nulls_last), (F("pk"), None)
    return found.order_by(
        *(
            key.desc(nulls_last=nulls) if is_descending else key.asc(nulls_last=nulls)
            for key, nulls in keys
        )
    )


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


def qualifier_rows(qualifiers: Iterable[Qualifier]) -> list[QualifierRow]:
    """Return qualifiers of a filter language in their API form."""
    return [
        QualifierRow(
            name=each.name,
            form=each.form.value,
            meaning=each.meaning,
            operators=list(each.operators),
            choices=list(each.choices),
            example=each.example,
        )
        for each in qualifiers
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
        return [ValueRow(value=value, count=count) for value, count in cursor.fetchall()]


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


LIVE_RUNS: Final = 200


def active_run_rows() -> list[LiveRunRow]:
    """Return the active runs among the newest, with summaries; they change often."""
    found = [run for run in _newest_runs() if run.status in ACTIVE]
    beside = activity_of([run.pk for run in found])
    return [_live_run_row(row, beside.get(row.id, {})) for row in run_rows(found)]


def inactive_run_rows() -> list[LiveRunRow]:
    """Return the inactive runs among the newest; they rarely change."""
    found = [run for run in _newest_runs() if run.status not in ACTIVE]
    return [_live_run_row(row, {}) for row in run_rows(found)]


def _newest_runs() -> list[Run]:
    found = (
        Run.objects.current().select_related("created_by", "project").order_by("-created_at", "-id")
    )
    return list(found[:LIVE_RUNS])


def _live_run_row(row: RunRow, beside: dict[str, Any]) -> LiveRunRow:
    shown = {name: value for name, value in beside.items() if name != "observed_at"}
    return LiveRunRow(**msgspec.structs.asdict(row), **shown)


def run_activity(run_ids: Sequence[int]) -> dict[int, RunActivity]:
    """Return run summaries as API objects."""
    return {run_id: RunActivity(**more) for run_id, more in activity_of(run_ids).items()}
