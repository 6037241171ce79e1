"""Contributions of the apps to live pages, run lists, launches and status changes.

The packages of the platform import only those below them. `fill` gives the lower ones these
functions of the higher ones, once Django has loaded its models.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from django.utils import timezone

from buffer.archive.models import ArchiveJob
from buffer.archive.services.archive_jobs import archived_bytes, remove_archives
from buffer.batches.queries import queues
from buffer.inspect.api.fragments import newest_part
from buffer.inspect.queries import group_contents
from buffer.items.models import FragmentChunk, TrajectoryGroup
from buffer.items.queries import accepted_items, ledger_part, stored_bytes
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.removal import remove_payloads
from buffer.tensors.models import TensorObject
from buffer.tensors.services import remove_objects, stored_tensor_bytes
from buffer.tokenizers.queries import uploaded_table
from config.cluster.status import cluster_admin_part, cluster_part
from rollouts import jobs
from rollouts.control.models import Recording
from rollouts.control.queries.fleets import (
    fleet_heartbeats,
    fleet_state,
    running_fragments,
    unended_fleet,
    weights_part,
)
from rollouts.control.schemas import FleetState
from rollouts.control.services.recordings import recorded_bytes, remove_recordings
from rollouts.curriculum.queries.curricula import built_in_table, check_language
from rollouts.curriculum.queries.lessons import curriculum_part
from rollouts.diagnosis.queries import run_activity
from rollouts.diagnosis.queries.pipelines import diagnosis_of
from rollouts.diagnosis.schemas import PipelineDiagnosis
from rollouts.environments.services.check_results import refuse_denied
from rollouts.episodes.queries import episodes
from rollouts.metrics.queries.metrics import last_value, metric_part, names_of_runs
from runs.access.queries import session_part
from runs.alerts.queries.alert_lists import alert_summary
from runs.alerts.schemas import AlertSummary
from runs.config import services
from runs.deployment import queries as deployment
from runs.deployment.schemas import Notice
from runs.lifecycle.models import PolicyVersion, Run
from runs.lifecycle.queries import event_series, run_part
from runs.lifecycle.services import deletion, lifecycle
from runs.lifecycle.services.deletion import StoredBytes
from runs.live.rules import ALERTS, CLUSTER, CLUSTER_ADMIN, RUN_LIST
from runs.search.queries import columns, lists
from runs.search.queries.lists import active_run_rows, inactive_run_rows
from runs.weights.services import (
    remove_weights,
    remove_weights_directory,
    stored_weights_bytes,
    weights_directory_bytes,
)
from web.live import parts
from web.live.announcements import announce

NEWEST_SECONDS: Final = 4.0


def fleet_part(run_id: int) -> FleetState:
    """Return the state of a run's fleet."""
    return fleet_state(run_id, now=timezone.now())


def diagnosis_part(run_id: int) -> PipelineDiagnosis:
    """Return the diagnosis of a run."""
    return diagnosis_of(run_id, now=timezone.now())


def alerts_part() -> AlertSummary:
    """Return the summary of all alerts."""
    return alert_summary(now=timezone.now())


def notice_part(_username: str) -> Notice | None:
    """Return the notice, which is the same for all users."""
    return deployment.notice(now=timezone.now())


def fleet_activity(run_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return the activity of fleets, by run."""
    return run_activity.fleet_activity(run_ids, now=timezone.now())


def ingest_activity(run_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return the rates of arriving items, by run."""
    return run_activity.ingest_activity(run_ids, now=timezone.now())


def diagnosis_changed(run_id: int) -> None:
    """Announce the diagnosis, which is otherwise read every two seconds with the other parts."""
    announce(run_id, "diagnosis")


def fill() -> None:
    """Fill the tables of the packages below."""
    parts.PARTS.update(
        run=run_part,
        queue=queues.queue_part,
        ledger=ledger_part,
        newest=newest_part,
        fleet=fleet_part,
        diagnosis=diagnosis_part,
        curriculum=curriculum_part,
        weights=weights_part,
        metrics=metric_part,
    )
    # No change notices announce this part, and reading it opens payloads: poll it.
    parts.PACES["newest"] = NEWEST_SECONDS
    parts.SERIES.update(events=event_series, episodes=episodes)
    parts.GLOBAL_PARTS.update(
        {
            RUN_LIST: {
                "active": active_run_rows,
                "resting": inactive_run_rows,
                "heartbeats": fleet_heartbeats,
            },
            ALERTS: {"alerts": alerts_part},
            CLUSTER: {"cluster": cluster_part},
            CLUSTER_ADMIN: {"cluster": cluster_admin_part},
        }
    )
    parts.OWN_PARTS.update(session=session_part, notice=notice_part)
    parts.RUN_ACTIVITY[:] = [queues.queue_activity, fleet_activity, ingest_activity]
    lists.SORTS.update(
        {
            "rate": lists.Sort("by_rate", float, run_activity.rate_for_lists),
            "staleness": lists.Sort("by_staleness", float, run_activity.staleness_for_lists),
            "return": lists.Sort("by_return", float, run_activity.return_for_lists),
        }
    )
    columns.SOURCES["metric"] = columns.Source(last_value, float, names_of_runs)
    group_contents.READERS[:] = [uploaded_table, built_in_table]
    queues.RUNNING_COUNTERS[:] = [running_fragments]
    services.CONFIG_CHECKS[:] = [check_language, refuse_denied]
    deletion.STORED.update(
        {
            TrajectoryGroup: StoredBytes(
                remove=partial(remove_payloads, ItemKind.GROUPS),
                size_bytes=partial(stored_bytes, ItemKind.GROUPS),
            ),
            FragmentChunk: StoredBytes(
                remove=partial(remove_payloads, ItemKind.FRAGMENTS),
                size_bytes=partial(stored_bytes, ItemKind.FRAGMENTS),
            ),
            TensorObject: StoredBytes(remove=remove_objects, size_bytes=stored_tensor_bytes),
            ArchiveJob: StoredBytes(remove=remove_archives, size_bytes=archived_bytes),
            Recording: StoredBytes(remove=remove_recordings, size_bytes=recorded_bytes),
            PolicyVersion: StoredBytes(remove=remove_weights, size_bytes=stored_weights_bytes),
            Run: StoredBytes(remove=remove_weights_directory, size_bytes=weights_directory_bytes),
        }
    )
    deletion.SPLITS[TrajectoryGroup] = '"segment" IS NULL'
    deletion.COUNTED.update({TrajectoryGroup, FragmentChunk})
    deletion.COUNT_ITEMS[:] = [accepted_items]
    deletion.BLOCKERS[:] = [unended_fleet]
    lifecycle.SUBSCRIBERS[:] = [diagnosis_changed, jobs.queue_reconcile]
