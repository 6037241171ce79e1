"""Register the buffer with Django and its numbers with the live page."""

from django.apps import AppConfig


class BufferConfig(AppConfig):
    """Trajectories between sampling and training."""

    name = "buffer"
    verbose_name = "Buffer"

    def ready(self) -> None:
        """Offer the queue and the ledger to whoever watches a run."""
        from buffer import selectors
        from runs import live

        live.register_part("queue", selectors.queue_part)
        live.register_part("ledger", selectors.ledger_part)
        live.register_outlook(selectors.queue_outlooks)
