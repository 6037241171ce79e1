"""Give every test an empty database, in a few milliseconds."""

from functools import cache
from typing import Any, Final

from django.db import connection
from django.test import TransactionTestCase

KEPT: Final = frozenset({"django_migrations", "django_content_type", "auth_permission"})
"""Written by the migrations, and by no test."""


def empty_quickly() -> None:
    """Let tests that commit delete the rows they left instead of truncating every table.

    Django truncates all tables after each such test, which makes new files for fifty tables with
    their indices, and writes down permissions and types of content again: 110 ms, and more where
    the server waits for its disk. Next to nothing is in them to delete.
    """
    TransactionTestCase._fixture_teardown = _ended  # type: ignore[method-assign]


def _ended(_: Any) -> None:
    delete_rows()


def delete_rows() -> None:
    """Leave no row behind; ids go on, as what a process remembers of one must not be another's."""
    with connection.cursor() as cursor:
        cursor.execute(_statements())


@cache
def _statements() -> str:
    """Return what empties every table; nothing checks meanwhile who refers to whom."""
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
    deletes = [f'DELETE FROM "{name}"' for name in tables if name not in KEPT]  # noqa: S608 ours
    return "; ".join(["BEGIN", "SET LOCAL session_replication_role = replica", *deletes, "COMMIT"])
