"""App configuration: registration of fleets with Django and the live pages."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.utils import timezone


class RolloutsConfig(AppConfig):
    """Fleets of rollout workers."""

    name = "rollouts"
    verbose_name = "Rollout fleets"

    def ready(self) -> None:
        """Register the parts of live pages, and reconcile a fleet when its run changes."""
        from buffer import selectors as buffer_selectors
        from buffer.selectors import token_text as buffer_token_text
        from rollouts import jobs, selectors
        from rollouts.selectors import conditions as seen
        from rollouts.selectors import rules, token_text
        from rollouts.selectors.deliveries import weights_part
        from rollouts.services.verdicts import refuse_denied
        from rollouts.wire import FleetState, PipelineVerdict
        from runs import live
        from runs.core.alerts import AlertKind
        from runs.selectors import run_table
        from runs.services import changes, conditions, config_checks

        def fleet_part(run_id: int) -> FleetState:
            return selectors.fleet_state(run_id, now=timezone.now())

        def verdict_part(run_id: int) -> PipelineVerdict:
            return selectors.verdict_of(run_id, now=timezone.now())

        def verdict_changed(run_id: int) -> None:
            live.announce(run_id, "verdict")

        def fleet_outlooks(run_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
            return selectors.fleet_outlooks(run_ids, now=timezone.now())

        def figure_outlooks(run_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
            return selectors.figure_outlooks(run_ids, now=timezone.now())

        live.register_part("fleet", fleet_part)
        # Read with the other parts every two seconds, and at once when the run's status changes.
        live.register_part("verdict", verdict_part)
        changes.subscribe(verdict_changed)
        live.register_part("curriculum", selectors.curriculum_part)
        live.register_part("weights", weights_part)
        live.register_series("episodes", selectors.episode_series)
        live.register_part("metrics", selectors.metric_part)
        live.register_outlook(fleet_outlooks)
        live.register_outlook(figure_outlooks)
        run_table.add_sort("rate", selectors.rate_for_lists)
        run_table.add_sort("staleness", selectors.staleness_for_lists)
        conditions.register({AlertKind.FLEET_SILENT}, seen.silent_fleets)
        conditions.register({AlertKind.WORKERS_DOWN}, seen.fleets_short_of_workers)
        conditions.register({AlertKind.LESSON_STALLED}, seen.stalled_lessons)
        conditions.register({AlertKind.LESSON_REGRESSED}, seen.regressed_lessons)
        conditions.register({AlertKind.RULE}, rules.broken_rules)
        changes.subscribe(jobs.nudge)
        config_checks.register(selectors.check_language)
        config_checks.register(refuse_denied)
        buffer_selectors.count_running_with(selectors.running_fragments)
        buffer_token_text.read_tokens_with(token_text.token_pieces)
