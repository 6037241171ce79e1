"""App configuration: registers live parts and alert conditions."""

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
        """Register the parts of the live pages that this app reads."""
        from runs.access.queries.callers import session_part
        from runs.access.queries.recent_audit import audit_reader
        from runs.alerts.queries import alerts
        from runs.alerts.queries import conditions as seen
        from runs.alerts.queries.refused_pushes import refusing_runs
        from runs.alerts.rules.alerts import AlertKind
        from runs.alerts.schemas.alerts import AlertSummary
        from runs.alerts.services import conditions
        from runs.deployment import queries as deployment
        from runs.deployment.schemas.deployment import Notice
        from runs.deployment.services.global_topics import ALERTS, AUDIT
        from runs.lifecycle.queries.runs import event_series, run_part
        from runs.search.queries.run_table import active_run_rows, inactive_run_rows
        from web.http import openapi  # noqa: F401 registers itself with the schema
        from web.live.parts import (
            register_global_part,
            register_own_part,
            register_part,
            register_series,
        )

        pre_delete.connect(
            _revoke_tokens, sender=settings.AUTH_USER_MODEL, dispatch_uid="runs.revoke_tokens"
        )
        register_part("run", run_part)
        register_series("events", event_series)
        register_global_part("active", active_run_rows)
        register_global_part("resting", inactive_run_rows)

        def alerts_part() -> AlertSummary:
            return alerts.alert_summary(now=timezone.now())

        def notice_part(username: str) -> Notice | None:
            del username  # the notice is the same for all users
            return deployment.notice(now=timezone.now())

        register_global_part("alerts", alerts_part, topic=ALERTS)
        register_global_part("audit", audit_reader.read, topic=AUDIT)
        register_own_part("session", session_part)
        register_own_part("notice", notice_part)
        conditions.register({AlertKind.RUN_FAILED}, seen.failed_runs)
        conditions.register({AlertKind.RUN_NOT_STARTING}, seen.runs_not_starting)
        conditions.register({AlertKind.REGISTRATION_DIFFERS}, seen.differing_registrations)
        conditions.register({AlertKind.LEDGER_UNBALANCED}, seen.unbalanced_ledgers)
        conditions.register({AlertKind.PUSHES_REFUSED}, refusing_runs)
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
