"""App configuration: registration of alert conditions."""

from django.apps import AppConfig


class RolloutsConfig(AppConfig):
    """Fleets of rollout workers."""

    name = "rollouts"
    verbose_name = "Rollout fleets"

    def ready(self) -> None:
        """Register the app's alert conditions."""
        _register_conditions()


def _register_conditions() -> None:
    from rollouts.diagnosis.queries import conditions as seen
    from rollouts.diagnosis.queries.conditions import rule_breaches
    from runs.alerts.rules import AlertKind
    from runs.alerts.services import alerts

    alerts.register(seen.DIAGNOSED, seen.diagnosed)
    alerts.register({AlertKind.QUEUE_FULL}, seen.full_queues)
    alerts.register({AlertKind.BATCH_QUARANTINED}, seen.quarantined_batches)
    alerts.register({AlertKind.LEASE_LAPSED}, seen.expired_leases)
    alerts.register({AlertKind.DISK_LOW}, seen.low_disk)
    alerts.register({AlertKind.LESSON_STALLED}, seen.stalled_lessons)
    alerts.register({AlertKind.LESSON_REGRESSED}, seen.regressed_lessons)
    alerts.register({AlertKind.RULE}, rule_breaches)
