"""Columns of lists of runs with names of their own: configuration values and metrics."""

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from django.db import connection
from django.db.models import F, Func, JSONField, QuerySet, Value
from django.db.models.expressions import Combinable

from runs.lifecycle.models import Run
from web.rules.errors import Invalid

AT_MOST: Final = 20
NAME_LENGTH: Final = 200
TEXT_LENGTH: Final = 200
"""Longest delivered text of a configuration value."""
NAMES_AT_MOST: Final = 2000


def config_value(path: str) -> Combinable:
    """Return the configuration value at a dotted path; lists and objects as JSON text."""
    value = Func(
        F("config"), *(Value(key) for key in path.split(".")), function="jsonb_extract_path"
    )
    text = f"to_jsonb(left(value #>> '{{}}', {TEXT_LENGTH}))"
    return Func(
        value,
        template=f"""(SELECT CASE jsonb_typeof(value) WHEN 'null' THEN NULL WHEN 'number' THEN value
            WHEN 'boolean' THEN value ELSE {text} END FROM (SELECT %(expressions)s AS value) v)""",  # noqa: S608 texts of our own
        output_field=JSONField(),
    )


class Source(NamedTuple):
    """Source of columns that have names of their own, such as configuration keys."""

    measure: Callable[[str], Combinable]
    """Returns the value of a name: an expression over :class:`Run`, NULL where there is none."""
    kind: type[Any]
    names: Callable[[QuerySet[Run]], list[str]]
    """Returns the names that runs have, in order, at most :data:`NAMES_AT_MOST`."""


_CONFIG_NAMES: Final = """
    WITH RECURSIVE leaf (path, value) AS (
        SELECT e.key, e.value FROM runs_run r, jsonb_each(r.config) e WHERE r.id IN ({runs})
        UNION
        SELECT l.path || '.' || e.key, e.value FROM leaf l, jsonb_each(
            CASE jsonb_typeof(l.value) WHEN 'object' THEN l.value ELSE '{{}}' END) e
        WHERE strpos(e.key, '.') = 0
    )
    SELECT DISTINCT path FROM leaf
    WHERE jsonb_typeof(value) NOT IN ('object', 'null') AND strpos(path, ',') = 0
        AND length(path) < {length}
    ORDER BY path LIMIT {limit}"""


def config_names(runs: QuerySet[Run]) -> list[str]:
    """Return the dotted paths of all configuration values of runs, in order."""
    ids, parameters = runs.order_by().values("pk").query.sql_with_params()
    statement = _CONFIG_NAMES.format(
        runs=ids, length=NAME_LENGTH - len("config."), limit=NAMES_AT_MOST
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return [path for (path,) in cursor.fetchall()]


SOURCES: Final[dict[str, Source]] = {"config": Source(config_value, str, config_names)}
"""Columns by the first part of their names; :mod:`config.readers` adds those of metrics."""


class InvalidColumns(Invalid):
    """A column does not exist, or there are too many."""

    field = "columns"


def names_of(runs: QuerySet[Run]) -> list[str]:
    """Return the names of all columns that runs have values for."""
    return [f"{source}.{name}" for source, (_, _, names) in SOURCES.items() for name in names(runs)]


def measure(column: str) -> Combinable | None:
    """Return the expression of a named column, or None if it cannot exist."""
    source, _, name = column.partition(".")
    if source not in SOURCES or not name or len(column) > NAME_LENGTH or "\x00" in name:
        return None
    return SOURCES[source].measure(name)


def exists(column: str) -> bool:
    """Return whether any run, also an archived one, has a value in this column."""
    value = measure(column)
    return value is not None and Run.objects.alias(v=value).filter(v__isnull=False).exists()


def written(value: Any) -> Any:
    """Return a value, or the name of a number that JSON cannot represent."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def unknown(column: str) -> str:
    """Return the error about a column without a value."""
    return f"unknown column {column[:NAME_LENGTH]!r}: no run has a value for it"
