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
        """Register the app's parts of live pages, alert conditions and checks."""
        _register_live_parts()
        _register_conditions()
        _register_checks()


def _register_live_parts() -> None:
    from buffer.inspect.queries import token_text as buffer_token_text
    from rollouts.control.queries.fleets import fleet_heartbeats, fleet_state
    from rollouts.control.queries.weight_syncs import weights_part
    from rollouts.control.schemas.fleets import FleetState
    from rollouts.curriculum.queries import token_text
    from rollouts.curriculum.queries.lessons import curriculum_part
    from rollouts.diagnosis.queries import run_activity
    from rollouts.diagnosis.queries.pipelines import diagnosis_of
    from rollouts.diagnosis.queries.run_activity import (
        rate_for_lists,
        return_for_lists,
        staleness_for_lists,
    )
    from rollouts.diagnosis.schemas import PipelineDiagnosis
    from rollouts.episodes.queries.episode_windows import episode_series
    from rollouts.metrics.queries.metrics import metric_part
    from runs.lifecycle.services import changes
    from runs.search.queries import run_table
    from web.live.announcements import announce
    from web.live.parts import (
        register_global_part,
        register_part,
        register_run_activity,
        register_series,
    )

    def fleet_part(run_id: int) -> FleetState:
        return fleet_state(run_id, now=timezone.now())

    def diagnosis_part(run_id: int) -> PipelineDiagnosis:
        return diagnosis_of(run_id, now=timezone.now())

    def diagnosis_changed(run_id: int) -> None:
        announce(run_id, "diagnosis")

    def fleet_activity(run_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
        return run_activity.fleet_activity(run_ids, now=timezone.now())

    def ingest_activity(run_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
        return run_activity.ingest_activity(run_ids, now=timezone.now())

    register_part("fleet", fleet_part)
    # Read with the other parts every two seconds, and at once when the run's status changes.
    register_part("diagnosis", diagnosis_part)
    changes.subscribe(diagnosis_changed)
    register_part("curriculum", curriculum_part)
    register_part("weights", weights_part)
    register_series("episodes", episode_series)
    register_part("metrics", metric_part)
    register_global_part("heartbeats", fleet_heartbeats)
    register_run_activity(fleet_activity)
    register_run_activity(ingest_activity)
    run_table.add_sort("rate", rate_for_lists)
    run_table.add_sort("staleness", staleness_for_lists)
    run_table.add_sort("return", return_for_lists)
    buffer_token_text.read_tokens_with(token_text.token_pieces)


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


def _register_checks() -> None:
    from buffer.batches.queries.queues import count_running_with
    from rollouts import jobs
    from rollouts.control.queries.fleets import running_fragments
    from rollouts.curriculum.queries.curricula import check_language
    from rollouts.environments.services.check_results import refuse_denied
    from runs.config.services import config_checks
    from runs.lifecycle.services import changes

    changes.subscribe(jobs.queue_reconcile)
    config_checks.register(check_language)
    config_checks.register(refuse_denied)
    count_running_with(running_fragments)
