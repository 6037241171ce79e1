"""Empty the database after each test that commits, and share rows among the tests of a module."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from django.db import connection, transaction
from django.test import TransactionTestCase
from pytest_django import DjangoDbBlocker

from config.own_folders import bind_folders
from runs.deployment.models import Deployment
from tests.factories import NOON

DELETE_ROWS: Final = """
DO $$
DECLARE
    name text;
BEGIN
    SET LOCAL session_replication_role = replica; -- no checks of foreign keys
    FOR name IN
        SELECT tablename FROM pg_tables
        WHERE schemaname = current_schema()
        -- Migrations write these rows, and the first process the last one; tests do not.
        AND tablename NOT IN (
            'django_migrations', 'django_content_type', 'auth_permission', 'runs_deployment'
        )
    LOOP
        EXECUTE format('DELETE FROM %I', name);
    END LOOP;
END
$$
"""


def empty_quickly() -> None:
    """Replace the truncation after each test that commits by DELETE statements.

    Django truncates all tables, which creates new files for 50 tables and their indexes, and then
    writes permissions and content types again: 110 ms, and more on a slow disk. The tables hold
    few rows.
    """
    TransactionTestCase._fixture_teardown = _ended  # type: ignore[attr-defined]


def _ended(_: Any) -> None:
    delete_rows()


def delete_rows() -> None:
    """Delete the rows of every table.

    Sequences are not reset: caches in a process may still refer to old ids. Tests create and drop
    partitions, so the tables are listed each time. One statement is one transaction: an error
    leaves none open.
    """
    with connection.cursor() as cursor:
        cursor.execute(DELETE_ROWS)


@contextmanager
def shared_rows(blocker: DjangoDbBlocker, write: Callable[[], object]) -> Iterator[None]:
    """Keep the rows of a module's fixture for all tests of the module.

    Each test of the module runs in a transaction inside of this one, which is rolled back at the
    end.

    Args:
        blocker: The fixture `django_db_blocker`; tests without access to the database stay blocked.
        write: Writes the rows.
    """
    with blocker.unblock(), transaction.atomic():
        write()
        with blocker.block():
            yield
        transaction.set_rollback(True)


@pytest.fixture
def own_database(transactional_db: None) -> Iterator[None]:
    """A database that no process has used; other tests of this session share its folders again."""
    Deployment.objects.all().delete()
    yield
    bind_folders(now=NOON)
