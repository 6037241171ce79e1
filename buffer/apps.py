"""Django app configuration of the buffer."""

from typing import Final

from django.apps import AppConfig

NEWEST_SECONDS: Final = 4.0


class BufferConfig(AppConfig):
    """The buffer: stores trajectories between sampling and training."""

    name = "buffer"
    verbose_name = "Buffer"

    def ready(self) -> None:
        """Register the live parts and run summaries of the buffer."""
        from buffer.batches.queries.queues import queue_activity, queue_part
        from buffer.inspect.api.newest import newest_part
        from buffer.items.queries.counts import ledger_part
        from web.live.parts import register_part, register_run_activity

        register_part("queue", queue_part)
        register_part("ledger", ledger_part)
        # No change notices announce this part, and reading it opens payloads: poll it.
        register_part("newest", newest_part, every_seconds=NEWEST_SECONDS)
        register_run_activity(queue_activity)
