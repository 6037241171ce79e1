"""Cleanup of managers without a run: their run is gone, or their launch was interrupted."""

import logging
from datetime import datetime

from django.db import transaction

from rollouts.control.models import Fleet
from rollouts.control.rules import run_of
from rollouts.control.services.launches import ACTOR
from rollouts.control.services.ray_cluster import Cluster
from runs.events.services import record_event
from runs.lifecycle.models import Run
from web.live.announcements import announce

logger = logging.getLogger(__name__)


def end_orphans(*, cluster: Cluster, platform_url: str, now: datetime) -> list[str]:
    """End every manager that reports to this platform but belongs to no run; return their names.

    Raises:
        ClusterUnreachable: If the cluster does not answer.
    """
    ended = []
    for name in cluster.managers(platform_url=platform_url):
        # Looked up after the cluster: a launch is recorded before the cluster is called, and
        # manager names are unique.
        if Fleet.objects.filter(actor_name=name).exclude(incarnation="").exists():
            continue
        cluster.kill(name)
        _note(name, now=now)
        ended.append(name)
    return ended


@transaction.atomic
def _note(name: str, *, now: datetime) -> None:
    logger.warning("manager %s ended: no run owns it", name)
    run_id = Run.objects.filter(name=run_of(name)).values_list("pk", flat=True).first()
    if run_id is None:
        return
    record_event(
        run_id=run_id,
        kind="orphan_ended",
        message=f"Ended orphaned manager {name} on the cluster",
        reason="the run has no manager of this name",
        actor=ACTOR,
        level="warning",
        now=now,
    )
    announce(run_id, "fleet")
