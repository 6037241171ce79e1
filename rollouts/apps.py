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
    from rollouts.alerts.queries import buffer_conditions, fleet_conditions, metric_conditions
    from runs.alerts.rules.alerts import AlertKind
    from runs.alerts.services import conditions

    of_flows = {AlertKind.RUN_STALLED, AlertKind.TRAINING_STALLED, AlertKind.QUEUE_FULL}
    conditions.register(of_flows, buffer_conditions.flows)
    conditions.register({AlertKind.STALE_DROPS}, buffer_conditions.stale_drops)
    conditions.register({AlertKind.BATCH_QUARANTINED}, buffer_conditions.quarantined_batches)
    conditions.register({AlertKind.LEASE_LAPSED}, buffer_conditions.expired_leases)
    conditions.register({AlertKind.DISK_LOW}, buffer_conditions.low_disk)
    conditions.register({AlertKind.FLEET_SILENT}, fleet_conditions.silent_fleets)
    conditions.register({AlertKind.WORKERS_DOWN}, fleet_conditions.fleets_short_of_workers)
    conditions.register({AlertKind.LESSON_STALLED}, fleet_conditions.stalled_lessons)
    conditions.register({AlertKind.LESSON_REGRESSED}, fleet_conditions.regressed_lessons)
    conditions.register({AlertKind.RULE}, metric_conditions.rule_breaches)
