"""Read rows without building a query, for hot paths.

Django takes 750 µs of CPU to build and run a query for one run; this takes 100. Use it only where
machines send hundreds of requests per second.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import psycopg
from django.db import connection
from django.db.models import Field, Model

M = TypeVar("M", bound=Model)


def rows(
    model: type[M], where: str, params: Sequence[Any], *, computed: Mapping[str, str] = {}
) -> list[M]:
    """Return the matching rows of a model.

    Args:
        model: Model whose table is read, with all its columns.
        where: SQL condition without user input, optionally with an order.
        params: Values of its placeholders.
        computed: SQL expressions by the attribute that receives their value; constants of the code.
    """
    fields = _fields(model)
    names = [field.attname for field in fields]
    connection.ensure_connection()
    raw: psycopg.Connection[Any] = connection.connection
    with psycopg.Cursor(raw) as cursor:
        # Prepared: for PostgreSQL planning takes longer than a lookup by key.
        select = _select(model, tuple(computed.values()))
        cursor.execute(f"{select} WHERE {where}".encode(), params, prepare=True)
        return [_row(model, fields, names, computed, row) for row in cursor.fetchall()]


def _row(
    model: type[M],
    fields: Sequence["Field[Any, Any]"],
    names: list[str],
    computed: Iterable[str],
    row: Sequence[Any],
) -> M:
    own, beside = row[: len(fields)], row[len(fields) :]
    values = [_value(*pair) for pair in zip(fields, own, strict=True)]
    found = model.from_db("default", names, values)
    for name, value in zip(computed, beside, strict=True):
        setattr(found, name, value)
    return found


def first_row(
    model: type[M], where: str, params: Sequence[Any], *, computed: Mapping[str, str] = {}
) -> M | None:
    """Return the first matching row of a model, or None; arguments as for :func:`rows`."""
    found = rows(model, f"{where} LIMIT 1", params, computed=computed)
    return found[0] if found else None


def related_row(row: Model, name: str) -> Any:
    """Return the row that a foreign key refers to, or None if there is none."""
    target: Any = row._meta.get_field(name).related_model
    return first_row(target, "id = %s", [getattr(row, f"{name}_id")])


def row_of(model: type[M], columns: Mapping[str, Any]) -> M:
    """Return a row with some columns loaded; the others are loaded on access."""
    names = [field.attname for field in _fields(model) if field.attname in columns]
    return model.from_db("default", names, [columns[name] for name in names])


@cache
def _fields(model: type[Model]) -> tuple["Field[Any, Any]", ...]:
    return tuple(model._meta.concrete_fields)


@cache
def _select(model: type[Model], computed: tuple[str, ...] = ()) -> str:
    columns = ", ".join([*(f'"{field.column}"' for field in _fields(model)), *computed])
    return f'SELECT {columns} FROM "{model._meta.db_table}"'  # noqa: S608 names of our own tables


def _value(field: "Field[Any, Any]", raw: Any) -> Any:
    convert = getattr(field, "from_db_value", None)
    return raw if convert is None else convert(raw, None, connection)
