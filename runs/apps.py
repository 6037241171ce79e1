"""Register the app and tell the live pages what it can show."""

from django.apps import AppConfig


class RunsConfig(AppConfig):
    """Runs, their trainers, environments, policy versions, events and tokens."""

    name = "runs"
    verbose_name = "Runs"

    def ready(self) -> None:
        """Register the parts of the live pages that this app reads."""
        from runs import live, selectors
        from runs.api import openapi  # noqa: F401 registers itself with the schema

        live.register_part("run", selectors.run_part)
        live.register_series("events", selectors.event_series)
        live.register_deck_part("runs", selectors.deck_runs)
