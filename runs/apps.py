"""App configuration: registers alert conditions."""

from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db.models.signals import pre_delete
from django.utils import timezone


class RunsConfig(AppConfig):
    """Runs, their trainers, environments, policy versions, events and tokens."""

    name = "runs"
    verbose_name = "Runs"

    def ready(self) -> None:
        """Register the app's alert conditions."""
        from runs.access.services import sign_in_log
        from runs.alerts.queries import conditions
        from runs.alerts.rules import AlertKind
        from runs.alerts.services import alerts
        from runs.deployment import queries as deployment
        from web.http import openapi  # noqa: F401 registers itself with the schema

        pre_delete.connect(
            _revoke_tokens, sender=settings.AUTH_USER_MODEL, dispatch_uid="runs.revoke_tokens"
        )
        user_logged_in.connect(sign_in_log.log_sign_in, dispatch_uid="runs.sign_in_log")
        user_login_failed.connect(sign_in_log.log_failure, dispatch_uid="runs.sign_in_log")
        user_logged_out.connect(sign_in_log.log_sign_out, dispatch_uid="runs.sign_in_log")
        alerts.register({AlertKind.RUN_FAILED}, conditions.failed_runs)
        alerts.register({AlertKind.REGISTRATION_DIFFERS}, conditions.differing_registrations)
        alerts.register({AlertKind.LEDGER_UNBALANCED}, conditions.unbalanced_ledgers)
        alerts.register({AlertKind.JOBS_DOWN}, deployment.stopped_jobs)
        alerts.register({AlertKind.PART_EXITED}, deployment.exited_parts)


def _revoke_tokens(instance: Any, **_: Any) -> None:
    """Revoke the tokens of a person who is being deleted."""
    from runs.access.services.tokens import revoke_tokens_of

    revoke_tokens_of(
        instance,
        actor="platform",
        reason=f"its owner {instance.get_username()} was deleted",
        now=timezone.now(),
    )
