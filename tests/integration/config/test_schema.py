"""A database of another version is rejected before any change to it."""

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from config.embedded.children import StartFailed
from config.embedded.schema import migrate

pytestmark = pytest.mark.django_db


def test_a_migrated_database_needs_no_change() -> None:
    assert migrate() == 0


def test_migrations_of_another_version_are_refused() -> None:
    MigrationRecorder(connection).record_applied("runs", "0999_of_a_later_version")

    with pytest.raises(StartFailed, match=r"among them runs\.0999_of_a_later_version"):
        migrate()


def test_migrations_of_removed_packages_are_ignored() -> None:
    MigrationRecorder(connection).record_applied("a_removed_package", "0001_initial")

    assert migrate() == 0
