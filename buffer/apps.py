"""Register the buffer with Django and its numbers with the live page."""

from typing import Final

from django.apps import AppConfig

NEWEST_SECONDS: Final = 4.0


class BufferConfig(AppConfig):
    """Trajectories between sampling and training."""

    name = "buffer"
    verbose_name = "Buffer"

    def ready(self) -> None:
        """Offer the queue and the ledger to whoever watches a run."""
        from buffer.batches.queries import conditions as seen
        from buffer.batches.queries.outlooks import queue_outlooks
        from buffer.batches.queries.queue_depth import queue_part
        from buffer.inspect.api.newest import newest_part
        from buffer.items.queries.counts import ledger_part
        from runs import live
        from runs.core.alerts import AlertKind
        from runs.services import conditions

        live.register_part("queue", queue_part)
        live.register_part("ledger", ledger_part)
        # Nobody announces it, and it opens payloads: it is read now and then, for all who watch.
        live.register_part("newest", newest_part, every_seconds=NEWEST_SECONDS)
        live.register_outlook(queue_outlooks)
        of_flows = {AlertKind.RUN_STALLED, AlertKind.TRAINING_STALLED, AlertKind.QUEUE_FULL}
        conditions.register(of_flows, seen.flows)
        conditions.register({AlertKind.STALE_DROPS}, seen.stale_drops)
        conditions.register({AlertKind.BATCH_QUARANTINED}, seen.quarantined_batches)
        conditions.register({AlertKind.LEASE_LAPSED}, seen.lapsed_leases)
        conditions.register({AlertKind.DISK_LOW}, seen.low_disk)
