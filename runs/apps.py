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
        from runs import live, selectors
        from runs.api import openapi  # noqa: F401 registers itself with the schema
        from runs.core.alerts import AlertKind
        from runs.live.deck_topics import ALERTS, AUDIT
        from runs.selectors import alerts, deck
        from runs.selectors import conditions as seen
        from runs.selectors.audit_news import audit_reader
        from runs.selectors.refused_pushes import refusing_runs
        from runs.services import conditions
        from runs.wire.alerts import AlertSummary
        from runs.wire.deck import Notice

        pre_delete.connect(
            _revoke_tokens, sender=settings.AUTH_USER_MODEL, dispatch_uid="runs.revoke_tokens"
        )
        live.register_part("run", selectors.run_part)
        live.register_series("events", selectors.event_series)
        live.register_deck_part("active", selectors.active_deck_runs)
        live.register_deck_part("resting", selectors.resting_deck_runs)

        def alerts_part() -> AlertSummary:
            return alerts.alert_summary(now=timezone.now())

        def notice_part(username: str) -> Notice | None:
            del username  # the notice is the same for all users
            return deck.notice(now=timezone.now())

        live.register_deck_part("alerts", alerts_part, topic=ALERTS)
        live.register_deck_part("audit", audit_reader.read, topic=AUDIT)
        live.register_own_part("session", selectors.session_part)
        live.register_own_part("notice", notice_part)
        conditions.register({AlertKind.RUN_FAILED}, seen.failed_runs)
        conditions.register({AlertKind.RUN_NOT_STARTING}, seen.runs_that_do_not_start)
        conditions.register({AlertKind.LEDGER_UNBALANCED}, seen.unbalanced_ledgers)
        conditions.register({AlertKind.PUSHES_REFUSED}, refusing_runs)


def _revoke_tokens(instance: Any, **_: Any) -> None:
    """Revoke the tokens of a person who is being deleted."""
    from runs import services

    services.revoke_tokens_of(
        instance,
        actor="platform",
        reason=f"its owner {instance.get_username()} was deleted",
        now=timezone.now(),
    )
