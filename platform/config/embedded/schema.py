"""Migrate a database to the schema of this version."""

from collections.abc import Iterable

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.utils import OperationalError
from django.utils import timezone

from config.embedded.children import StartFailed
from runs.access.services import tokens


def migrate() -> int:
    """Apply the missing migrations and return their number.

    Raises:
        StartFailed: If the database does not answer, or has migrations of another version.
    """
    try:
        executor = MigrationExecutor(connection)
    except OperationalError as error:
        raise StartFailed(f"the database does not answer: {error}") from error
    applied = [f"{app}.{name}" for app, name in executor.loader.applied_migrations or ()]
    if unknown := unknown_migrations(applied, executor.loader):
        raise StartFailed(
            f"the database was created by another version of Rolldeck: it lists {len(unknown)} "
            f"migrations that this version lacks, among them {unknown[-1]}. Start that version, or "
            "use an empty database"
        )
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        call_command("migrate", interactive=False, verbosity=0)
    return len(plan)


def unknown_migrations(applied: Iterable[str], loader: MigrationLoader) -> list[str]:
    """Return the migrations of known apps that this version lacks.

    Args:
        applied: ``app.name`` of each migration applied to a database.
        loader: Loader of this version's migrations.
    """
    known = {f"{app}.{name}" for app, name in loader.disk_migrations}
    own = {name for name in applied if name.partition(".")[0] in loader.migrated_apps}
    return sorted(own - known)


def adopt_bootstrap_token() -> None:
    """Register the token of ROLLDECK_BOOTSTRAP_TOKEN, if set, as an administrator's.

    Raises:
        StartFailed: If it is too short.
    """
    text = settings.ROLLDECK_BOOTSTRAP_TOKEN
    if not text:
        return
    try:
        tokens.adopt_bootstrap_token(text=text, now=timezone.now())
    except ValueError as error:
        raise StartFailed(f"ROLLDECK_BOOTSTRAP_TOKEN: {error}") from error
