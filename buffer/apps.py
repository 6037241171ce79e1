"""Django app configuration of the buffer."""

from typing import Final

from django.apps import AppConfig

NEWEST_SECONDS: Final = 4.0


class BufferConfig(AppConfig):
    """The buffer: stores trajectories between sampling and training."""

    name = "buffer"
    verbose_name = "Buffer"

    def ready(self) -> None:
        """Register the live parts, run summaries and alert conditions of the buffer."""
        from buffer import selectors
        from buffer.api.newest import newest_part
        from buffer.selectors import conditions as seen
        from runs import live
        from runs.core.alerts import AlertKind
        from runs.services import conditions

        live.register_part("queue", selectors.queue_part)
        live.register_part("ledger", selectors.ledger_part)
        # No change notices announce this part, and reading it opens payloads: poll it.
        live.register_part("newest", newest_part, every_seconds=NEWEST_SECONDS)
        live.register_outlook(selectors.queue_outlooks)
        of_flows = {AlertKind.RUN_STALLED, AlertKind.TRAINING_STALLED, AlertKind.QUEUE_FULL}
        conditions.register(of_flows, seen.flows)
        conditions.register({AlertKind.STALE_DROPS}, seen.stale_drops)
        conditions.register({AlertKind.BATCH_QUARANTINED}, seen.quarantined_batches)
        conditions.register({AlertKind.LEASE_LAPSED}, seen.lapsed_leases)
        conditions.register({AlertKind.DISK_LOW}, seen.low_disk)
