"""Reconciliation of a run's fleet: one step closer to its desired state.

A pass consists of several short transactions with the slow cluster calls between them, so no
transaction waits for Ray. Intents are stored before the cluster is called, and each write names its
manager: the next pass continues a pass that was interrupted at any line.
"""

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from django.db import connection, transaction

from buffer.batches.services.expiry import drop_open
from buffer.items.rules.states import DropReason
from rollouts.control import rules as control_rules
from rollouts.control.models import EnvSlot, Fleet, FleetWorker
from rollouts.control.queries.fleets import fleet_view, outage_of_run
from rollouts.control.queries.machines import closed_nodes, why_no_machine
from rollouts.control.rules import (
    BUDGET_WINDOW,
    Action,
    Decision,
    LaunchRequest,
    after_check,
    decide,
    run_of,
)
from rollouts.control.services.outages import pause_run, record_probe
from rollouts.control.services.ray_cluster import Cluster, ClusterUnreachable, LaunchRefused
from rollouts.control.services.reports import end_all_attempts
from runs.access.models import ApiToken, TokenIssuer
from runs.access.services.tokens import create_token
from runs.events.services import record_event
from runs.lifecycle.models import Run
from runs.lifecycle.queries import weights_directory
from runs.lifecycle.rules import RunStatus
from runs.lifecycle.services.lifecycle import move
from web.live.announcements import announce

logger = logging.getLogger(__name__)

ENDS_DRAIN: Final = {Action.FINISH_DRAIN: DropReason.DRAINED, Action.END_DRAIN: DropReason.KILLED}
"""Reason for dropping items that are still open at the end of a drain."""
_FORCED: Final = (RunStatus.STOPPED, RunStatus.FAILED)
ACTOR = "fleet reconciler"
_LAUNCHABLE = (RunStatus.QUEUED, RunStatus.STARTING, RunStatus.RUNNING, RunStatus.PAUSED)


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
            record_start_failure(run_id=run_id, reason=str(error), now=now)
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
    if action is Action.WAIT:
        return
    if action is Action.LAUNCH:
        _launch(run_id, reason, cluster=cluster, platform_url=platform_url, now=now)
        return
    if action is Action.PAUSE:
        pause_run(run_id, cause="environment", reason=f"every worker fails: {reason}", now=now)
        return
    if action is Action.FAIL:
        move(run_id=run_id, target=RunStatus.FAILED, actor=ACTOR, reason=reason, now=now)
    if action in ENDS_DRAIN:
        with transaction.atomic():
            run = Run.objects.get(pk=run_id)
            if run.status == RunStatus.DRAINING:
                # The buffer's lock before the run's row: the same order as in batch formation.
                drop_open(run_id=run_id, reason=ENDS_DRAIN[action], now=now)
                target = RunStatus(run.drain_target)
                move(run_id=run_id, target=target, actor=ACTOR, reason=reason, now=now)
    elif action in {Action.END, Action.FAIL} and (
        Run.objects.filter(pk=run_id, status__in=_FORCED).exists()
    ):
        # The buffer also sweeps ended runs by itself, so a crash before this line loses nothing.
        drop_open(run_id=run_id, reason=DropReason.KILLED, now=now)
    fleet = _fleet(run_id)
    if fleet.incarnation:
        cluster.kill(fleet.actor_name)
        record_manager_ended(run_id=run_id, incarnation=fleet.incarnation, reason=reason, now=now)


def _launch(
    run_id: int, reason: str, *, cluster: Cluster, platform_url: str, now: datetime
) -> None:
    # Any earlier manager is looked up first. While the cluster is unreachable or entirely cordoned,
    # nothing is written, so the launch budget is not spent.
    earlier = _fleet(run_id)
    cluster.reach()
    if reason_to_wait := why_no_machine():
        raise LaunchRefused(reason_to_wait)
    if earlier.actor_name:
        cluster.kill(earlier.actor_name)
    order = begin_launch(run_id=run_id, reason=reason, platform_url=platform_url, now=now)
    if order is None:
        return
    if (outage := outage_of_run(Run.objects.get(pk=run_id))) is not None:
        record_probe(outage, now=now)
    cluster.launch(order)
    record_manager_placed(run_id=run_id, incarnation=order.incarnation, now=now)


@transaction.atomic
def begin_launch(
    *, run_id: int, reason: str, platform_url: str, now: datetime
) -> LaunchRequest | None:
    """Register a new manager as the run's only one, before the cluster launches it.

    A crash between this call and the cluster's answer leaves a manager that never started. The next
    reconciler pass finds it missing and launches another.

    Returns:
        The settings of the new manager, or None if the run does not want one.
    """
    Fleet.objects.get_or_create(run_id=run_id)
    fleet = Fleet.objects.select_for_update().get(run_id=run_id)
    run = Run.objects.select_for_update().get(pk=run_id)
    if run.status not in _LAUNCHABLE:
        return None
    if run.status == RunStatus.QUEUED:
        # An operator requested this start, so earlier failures do not count against it.
        fleet.recent_launches_at = []
        fleet.heard_at = None
        move(run_id=run_id, target=RunStatus.STARTING, actor=ACTOR, reason="", now=now)
    end_all_attempts(fleet, reason=f"a new manager was launched: {reason}", now=now)
    fleet.attempt += 1
    fleet.incarnation = f"{fleet.attempt}-{secrets.token_hex(4)}"
    fleet.actor_name = control_rules.actor_name(run=run.name, attempt=fleet.attempt)
    fleet.launched_at, fleet.placed_at, fleet.observed_at = now, None, None
    recent = [at for at in fleet.recent_launches_at if now - at < BUDGET_WINDOW]
    fleet.recent_launches_at = [*recent, now]
    fleet.observed, fleet.sequence, fleet.reason = "none", -1, ""
    fleet.is_final, fleet.node_id = False, ""
    fleet.save()
    FleetWorker.objects.filter(fleet=fleet).update(
        state="respawning", reason="a new manager is being launched", env_steps_per_second=0.0
    )
    _revoke_tokens(run_id=run_id, now=now)
    _, token = create_token(
        name=f"fleet {run.name}",
        scopes=["worker"],
        run_id=run_id,
        issuer=TokenIssuer.MANAGER,
        now=now,
    )
    config: dict[str, Any] = run.config
    if run.num_workers:
        config = {**config, "fleet": {**config["fleet"], "num_workers": run.num_workers}}
    record_event(
        run_id=run_id,
        kind="fleet_launched",
        message=f"Launching fleet manager {fleet.actor_name}",
        reason=reason,
        actor=ACTOR,
        level="info" if fleet.attempt == 1 else "warning",
        now=now,
    )
    announce(run_id, "fleet")
    return LaunchRequest(
        actor_name=fleet.actor_name,
        incarnation=fleet.incarnation,
        run=run.name,
        config=config,
        platform_url=platform_url,
        token=token,
        run_key=control_rules.run_key(run=run.name, created_at=run.created_at),
        weights_directory=weights_directory(run),
        closed_nodes=closed_nodes(),
    )


def record_manager_placed(*, run_id: int, incarnation: str, now: datetime) -> bool:
    """Record that the cluster has accepted the manager; False if it was replaced since."""
    placed = Fleet.objects.filter(run_id=run_id, incarnation=incarnation).update(
        placed_at=now, reason=""
    )
    announce(run_id, "fleet")
    return bool(placed)


@transaction.atomic
def record_start_failure(*, run_id: int, reason: str, now: datetime) -> bool:
    """Record why the fleet cannot start; return False if the reason is already recorded."""
    fleet, _ = Fleet.objects.get_or_create(run_id=run_id)
    if not Fleet.objects.filter(pk=fleet.pk).exclude(reason=reason).update(reason=reason):
        return False
    run = Run.objects.get(pk=run_id)
    if run.status in {RunStatus.QUEUED, RunStatus.STARTING}:
        Run.objects.filter(pk=run_id, status=run.status).update(status_reason=reason)
    record_event(
        run_id=run_id,
        kind="fleet_waits",
        message="The fleet cannot start yet",
        reason=reason,
        actor=ACTOR,
        level="warning",
        now=now,
    )
    announce(run_id, "run", "fleet")
    return True


@transaction.atomic
def record_manager_ended(*, run_id: int, incarnation: str, reason: str, now: datetime) -> bool:
    """Record that the manager has ended for good; False if it was replaced since."""
    ended = Fleet.objects.filter(run_id=run_id, incarnation=incarnation).update(
        incarnation="", observed="stopped", reason=reason
    )
    if not ended:
        return False
    end_all_attempts(Fleet.objects.get(run_id=run_id), reason=reason, now=now)
    workers = FleetWorker.objects.filter(fleet__run_id=run_id)
    workers.update(state="stopped", env_steps_per_second=0.0, to_send=0)
    EnvSlot.objects.filter(worker__in=workers).update(state="stopped", pid=None)
    _revoke_tokens(run_id=run_id, now=now)
    record_event(
        run_id=run_id,
        kind="fleet_ended",
        message="Ended the fleet manager",
        reason=reason,
        actor=ACTOR,
        now=now,
    )
    announce(run_id, "fleet")
    return True


def _revoke_tokens(*, run_id: int, now: datetime) -> None:
    managers = ApiToken.objects.filter(run_id=run_id, issuer=TokenIssuer.MANAGER)
    managers.filter(revoked_at=None).update(revoked_at=now)


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
        ended.append(name)
        logger.warning("manager %s ended: no run owns it", name)
        run_id = Run.objects.filter(name=run_of(name)).values_list("pk", flat=True).first()
        if run_id is None:
            continue
        with transaction.atomic():
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
    return ended
