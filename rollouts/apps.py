"""App configuration: registration of alert conditions."""

from django.apps import AppConfig


class RolloutsConfig(AppConfig):
    """Fleets of rollout workers."""

    name = "rollouts"
    verbose_name = "Rollout fleets"

    def ready(self) -> None:
        """Register the app's alert conditions."""
        from rollouts.diagnosis.queries import conditions
        from runs.alerts.rules import AlertKind
        from runs.alerts.services import alerts

        alerts.register(conditions.DIAGNOSED, conditions.diagnosed)
        alerts.register({AlertKind.QUEUE_FULL}, conditions.full_queues)
        alerts.register({AlertKind.BATCH_QUARANTINED}, conditions.quarantined_batches)
        alerts.register({AlertKind.LEASE_LAPSED}, conditions.expired_leases)
        alerts.register({AlertKind.DISK_LOW}, conditions.low_disk)
        alerts.register({AlertKind.OUTAGE}, conditions.open_outages)
        alerts.register({AlertKind.LESSON_STALLED}, conditions.stalled_lessons)
        alerts.register({AlertKind.LESSON_REGRESSED}, conditions.regressed_lessons)
        alerts.register({AlertKind.RULE}, conditions.rule_breaches)
