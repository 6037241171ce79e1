"""Records of launches and ends of fleet managers, before and after the cluster acts."""

import secrets
from datetime import datetime
from typing import Any

from django.db import transaction

from rollouts.control import rules as control_rules
from rollouts.control.models import EnvSlot, Fleet, FleetWorker
from rollouts.control.queries.machines import closed_nodes
from rollouts.control.rules import BUDGET_WINDOW, LaunchRequest
from rollouts.control.services import attempts
from runs.access.models import ApiToken, TokenIssuer
from runs.access.services import create_token
from runs.events.services import record_event
from runs.lifecycle.models import Run
from runs.lifecycle.queries import weights_directory
from runs.lifecycle.rules import RunStatus
from runs.lifecycle.services.lifecycle import move
from web.live.announcements import announce

ACTOR = "fleet reconciler"
_LAUNCHABLE = (RunStatus.QUEUED, RunStatus.STARTING, RunStatus.RUNNING, RunStatus.PAUSED)


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
    attempts.end_all(fleet, reason=f"a new manager was launched: {reason}", now=now)
    _assign_manager(fleet, run.name, now=now)
    token = _replace_manager_token(run, now=now)
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
        config=_config_now(run),
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
    attempts.end_all(Fleet.objects.get(run_id=run_id), reason=reason, now=now)
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


def _config_now(run: Run) -> dict[str, Any]:
    """Return the run's configuration with the presently desired number of workers."""
    config: dict[str, Any] = run.config
    if not run.num_workers:
        return config
    return {**config, "fleet": {**config["fleet"], "num_workers": run.num_workers}}


def _assign_manager(fleet: Fleet, run_name: str, *, now: datetime) -> None:
    fleet.attempt += 1
    fleet.incarnation = f"{fleet.attempt}-{secrets.token_hex(4)}"
    fleet.actor_name = control_rules.actor_name(run=run_name, attempt=fleet.attempt)
    fleet.launched_at, fleet.placed_at, fleet.observed_at = now, None, None
    recent = [at for at in fleet.recent_launches_at if now - at < BUDGET_WINDOW]
    fleet.recent_launches_at = [*recent, now]
    fleet.observed, fleet.sequence, fleet.reason = "none", -1, ""
    fleet.is_final, fleet.node_id = False, ""
    fleet.save()
    FleetWorker.objects.filter(fleet=fleet).update(
        state="respawning", reason="a new manager is being launched", env_steps_per_second=0.0
    )


def _replace_manager_token(run: Run, *, now: datetime) -> str:
    """Return a token for the new manager, and revoke those of earlier ones."""
    _revoke_tokens(run_id=run.pk, now=now)
    _, text = create_token(
        name=f"fleet {run.name}",
        scopes=["worker"],
        run_id=run.pk,
        issuer=TokenIssuer.MANAGER,
        now=now,
    )
    return text


def _revoke_tokens(*, run_id: int, now: datetime) -> None:
    managers = ApiToken.objects.filter(run_id=run_id, issuer=TokenIssuer.MANAGER)
    managers.filter(revoked_at=None).update(revoked_at=now)
