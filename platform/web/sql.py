"""Statements by name, from the file ``sql/queries.sql`` of an app, and their rows.

A statement begins with a line ``-- name --`` and one sentence as a comment. ``{name}`` in it
includes another statement; other braces stay.

Django's cursors bind parameters on the client, as text: 37 MB/s. These cursors bind on the server,
as bytes: 308 MB/s. They share Django's connection and transaction. Django takes 750 µs of CPU to
build and run a query for one run; :func:`first_row` takes 100. Use it only where machines send
hundreds of requests per second.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import Any, TypeVar, overload

import psycopg
from django.db import connection
from django.db.models import Field, Model
from psycopg.rows import BaseRowFactory, tuple_row

M = TypeVar("M", bound=Model)
R = TypeVar("R")
_STATEMENT = re.compile(r"^-- (\w+) --\n(?:-- .*\n)+", re.MULTILINE)
_INCLUDED = re.compile(r"\{(\w+)\}")


@cache
def statements_of(app: str) -> Mapping[str, str]:
    """Return the statements of an app, by name."""
    text = (resources.files(app) / "sql" / "queries.sql").read_text(encoding="utf-8")
    _, *parts = _STATEMENT.split(text)
    raw = dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))
    return {name: _with_included(statement, raw) for name, statement in raw.items()}


def _with_included(statement: str, raw: Mapping[str, str]) -> str:
    def included(found: re.Match[str]) -> str:
        name = found[1]
        return _with_included(raw[name], raw) if name in raw else found[0]

    return _INCLUDED.sub(included, statement)


def filled(statement: str, **parts: str) -> str:
    """Return a statement with constants of the code in place of ``{name}``."""
    for name, part in parts.items():
        statement = statement.replace(f"{{{name}}}", part)
    return statement


@overload
def cursor() -> psycopg.Cursor[Any]: ...
@overload
def cursor(row_factory: BaseRowFactory[R]) -> psycopg.Cursor[R]: ...
def cursor(row_factory: BaseRowFactory[Any] = tuple_row) -> psycopg.Cursor[Any]:
    """Return a cursor on Django's connection that binds on the server."""
    connection.ensure_connection()
    raw: psycopg.Connection[Any] = connection.connection
    return psycopg.Cursor(raw, row_factory=row_factory)


@contextmanager
def one_process(lock: str) -> Iterator[bool]:
    """Hold an advisory lock for a block; yield whether no other process holds it."""
    with connection.cursor() as held:
        held.execute("SELECT pg_try_advisory_lock(hashtext(%s))", [lock])
        is_exclusive = bool(held.fetchone()[0])
        try:
            yield is_exclusive
        finally:
            if is_exclusive:
                held.execute("SELECT pg_advisory_unlock(hashtext(%s))", [lock])


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
    select = _select(model, tuple(computed.items()))
    with cursor(_model_row(model)) as sql:
        # Prepared: for PostgreSQL planning takes longer than a lookup by key.
        return sql.execute(f"{select} WHERE {where}".encode(), params, prepare=True).fetchall()


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
    """Return a row with those of its columns that are given; others are loaded on access."""
    names = [field.attname for field in _fields(model) if field.attname in columns]
    return model.from_db("default", names, [columns[name] for name in names])


def _model_row(model: type[M]) -> BaseRowFactory[M]:
    """Return the row factory of a model's rows; columns after the model's become attributes.

    psycopg's `class_row` would leave JSON as text, and mark the rows as not stored yet.
    """
    fields = _fields(model)
    names = [field.attname for field in fields]
    converters = [
        (place, field.from_db_value)
        for place, field in enumerate(fields)
        if hasattr(field, "from_db_value")
    ]

    def factory(sql: Any) -> Callable[[Sequence[Any]], M]:
        computed = [column.name for column in (sql.description or ())[len(names) :]]

        def row(columns: Sequence[Any]) -> M:
            values = list(columns[: len(names)])
            for place, convert in converters:
                values[place] = convert(values[place], None, connection)
            made = model.from_db("default", names, values)
            for name, value in zip(computed, columns[len(names) :], strict=True):
                setattr(made, name, value)
            return made

        return row

    return factory


@cache
def _fields(model: type[Model]) -> tuple["Field[Any, Any]", ...]:
    return tuple(model._meta.concrete_fields)


@cache
def _select(model: type[Model], computed: tuple[tuple[str, str], ...]) -> str:
    own = [f'"{field.column}"' for field in _fields(model)]
    columns = ", ".join([*own, *(f"{value} AS {name}" for name, value in computed)])
    return f'SELECT {columns} FROM "{model._meta.db_table}"'  # noqa: S608 names of our own tables
