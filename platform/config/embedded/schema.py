"""Bring a database to the state that this version needs."""

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import OperationalError
from django.utils import timezone

from config.embedded.children import StartFailed
from runs import services


def migrate() -> int:
    """Apply the migrations that are missing, and return how many.

    Raises:
        StartFailed: If the database does not answer.
    """
    try:
        executor = MigrationExecutor(connection)
    except OperationalError as error:
        raise StartFailed(f"the database does not answer: {error}") from error
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        call_command("migrate", interactive=False, verbosity=0)
    return len(plan)


def adopt_bootstrap_token() -> None:
    """Make the token that the environment names an administrator's, if it names one.

    Raises:
        StartFailed: If it is too easy to guess.
    """
    text = settings.ROLLDECK_BOOTSTRAP_TOKEN
    if not text:
        return
    try:
        services.adopt_bootstrap_token(text=text, now=timezone.now())
    except ValueError as error:
        raise StartFailed(f"ROLLDECK_BOOTSTRAP_TOKEN: {error}") from error
