"""Reconciliation of a run's fleet: one step closer to its desired state.

A pass consists of several short transactions with the slow cluster calls between them, so no
transaction waits for Ray. Intents are stored before the cluster is called, and each write names its
manager: the next pass continues a pass that was interrupted at any line.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from django.db import connection, transaction

from buffer.batches.services.expiry import drop_open
from buffer.items.rules.states import DropReason
from rollouts.control.models import Fleet
from rollouts.control.queries.fleets import fleet_view
from rollouts.control.queries.machines import why_no_machine
from rollouts.control.rules import Action, Decision, after_check, decide
from rollouts.control.services import launches
from rollouts.control.services.ray_cluster import Cluster, ClusterUnreachable, LaunchRefused
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus
from runs.lifecycle.services.lifecycle import move

logger = logging.getLogger(__name__)

ENDS_DRAIN: Final = {
    Action.FINISH_DRAIN: DropReason.DRAINED,
    Action.END_DRAIN: DropReason.KILLED,
}
"""Reason for dropping items that are still open at the end of a drain."""
_FORCED: Final = (RunStatus.STOPPED, RunStatus.FAILED)


def reconcile(
    *, run_id: int, cluster: Cluster, platform_url: str, now: datetime
) -> Decision | None:
    """Reconcile one run by one action; return the decision, or None if another pass holds the run.

    Safe to call at any time, repeatedly, and from several processes concurrently.
    """
    with _exclusive(run_id) as mine:
        if not mine:
            return None
        view = fleet_view(run_id)
        decision = decide(view, now=now)
        try:
            if decision.action is Action.CHECK:
                actor = cluster.actor_state(_fleet(run_id).actor_name)
                decision = after_check(view, actor, now=now)
            _act(run_id, decision, cluster=cluster, platform_url=platform_url, now=now)
        except (ClusterUnreachable, LaunchRefused) as error:
            launches.record_start_failure(run_id=run_id, reason=str(error), now=now)
        if decision.action is not Action.WAIT:
            logger.info("run %d: %s (%s)", run_id, decision.action, decision.reason)
        return decision


@contextmanager
def _exclusive(run_id: int) -> Iterator[bool]:
    """Hold the run's advisory lock, or yield False at once if it is held elsewhere.

    A session lock, not a transaction lock: no transaction may be open during calls to Ray.
    PostgreSQL releases it when the connection ends.
    """
    key = "hashtext('rolldeck fleet'), %s"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_try_advisory_lock({key})", [run_id])
        [mine] = cursor.fetchone()
    try:
        yield mine
    finally:
        if mine:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT pg_advisory_unlock({key})", [run_id])


def _fleet(run_id: int) -> Fleet:
    return Fleet.objects.filter(run_id=run_id).first() or Fleet(run_id=run_id)


def _act(
    run_id: int, decision: Decision, *, cluster: Cluster, platform_url: str, now: datetime
) -> None:
    action, reason = decision.action, decision.reason
    if action is Action.LAUNCH:
        _launch(run_id, reason, cluster=cluster, platform_url=platform_url, now=now)
    elif action is Action.ABANDON:
        _end_manager(run_id, reason, cluster=cluster, now=now)
    elif action is Action.END:
        _drop_leftovers(run_id, now=now)
        _end_manager(run_id, reason, cluster=cluster, now=now)
    elif action is Action.FAIL:
        move(
            run_id=run_id,
            target=RunStatus.FAILED,
            actor=launches.ACTOR,
            reason=reason,
            now=now,
        )
        _drop_leftovers(run_id, now=now)
        _end_manager(run_id, reason, cluster=cluster, now=now)
    elif action in ENDS_DRAIN:
        _end_drain(run_id, decision, now=now)
        _end_manager(run_id, reason, cluster=cluster, now=now)


def _launch(
    run_id: int, reason: str, *, cluster: Cluster, platform_url: str, now: datetime
) -> None:
    """Replace any existing manager.

    The old one is looked up on the cluster first. While the cluster is unreachable or entirely
    cordoned nothing is written, so the launch budget is not spent.
    """
    earlier = _fleet(run_id)
    cluster.reach()
    if reason_to_wait := why_no_machine():
        raise LaunchRefused(reason_to_wait)
    if earlier.actor_name:
        cluster.kill(earlier.actor_name)
    order = launches.begin_launch(run_id=run_id, reason=reason, platform_url=platform_url, now=now)
    if order is None:
        return
    cluster.launch(order)
    launches.record_manager_placed(run_id=run_id, incarnation=order.incarnation, now=now)


def _end_manager(run_id: int, reason: str, *, cluster: Cluster, now: datetime) -> None:
    fleet = _fleet(run_id)
    if not fleet.incarnation:
        return
    cluster.kill(fleet.actor_name)
    launches.record_manager_ended(
        run_id=run_id, incarnation=fleet.incarnation, reason=reason, now=now
    )


@transaction.atomic
def _end_drain(run_id: int, decision: Decision, *, now: datetime) -> None:
    """Drop the remaining items and move a draining run to its final status."""
    run = Run.objects.get(pk=run_id)
    if run.status != RunStatus.DRAINING:
        return
    # The buffer's lock before the run's row: the same order as in batch formation.
    drop_open(run_id=run_id, reason=ENDS_DRAIN[decision.action], now=now)
    move(
        run_id=run_id,
        target=RunStatus(run.drain_target),
        actor=launches.ACTOR,
        reason=decision.reason,
        now=now,
    )


def _drop_leftovers(run_id: int, *, now: datetime) -> None:
    """Drop open items of a run that was ended by force.

    The buffer also sweeps ended runs by itself, so a crash before this line loses nothing.
    """
    if Run.objects.filter(pk=run_id, status__in=_FORCED).exists():
        drop_open(run_id=run_id, reason=DropReason.KILLED, now=now)
