"""App configuration: registers alert conditions."""

from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db.models.signals import pre_delete
from django.utils import timezone


class RunsConfig(AppConfig):
    """Runs, their trainers, environments, policy versions, events and tokens."""

    name = "runs"
    verbose_name = "Runs"

    def ready(self) -> None:
        """Register the app's alert conditions."""
        from runs.alerts.queries import conditions as seen
        from runs.alerts.rules import AlertKind
        from runs.alerts.services import conditions
        from runs.deployment import queries as deployment
        from web.http import openapi  # noqa: F401 registers itself with the schema

        pre_delete.connect(
            _revoke_tokens, sender=settings.AUTH_USER_MODEL, dispatch_uid="runs.revoke_tokens"
        )
        conditions.register({AlertKind.RUN_FAILED}, seen.failed_runs)
        conditions.register({AlertKind.REGISTRATION_DIFFERS}, seen.differing_registrations)
        conditions.register({AlertKind.LEDGER_UNBALANCED}, seen.unbalanced_ledgers)
        conditions.register({AlertKind.JOBS_DOWN}, deployment.stopped_jobs)
        conditions.register({AlertKind.PART_EXITED}, deployment.exited_parts)


def _revoke_tokens(instance: Any, **_: Any) -> None:
    """Revoke the tokens of a person who is being deleted."""
    from runs.access.services.tokens import revoke_tokens_of

    revoke_tokens_of(
        instance,
        actor="platform",
        reason=f"its owner {instance.get_username()} was deleted",
        now=timezone.now(),
    )
