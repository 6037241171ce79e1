"""Order workers to keep a version of the weights, to follow the newest, or to fetch anew."""

from datetime import datetime

from django.db import transaction

from runs import live
from runs.core.lifecycle import TERMINAL
from runs.core.versions import NO_POLICY_STEP
from runs.models import PolicyVersion, Run, RunKind, WeightsOrder
from runs.selectors import NoWeights, RunNotFound, weights_directory
from runs.selectors.weights_orders import newest_order, pinned_step
from runs.services.events import record_event
from runs.services.registry import RunIsOver
from runs.services.run_settings import NoFleet
from runs.services.weights import KEPT_FILES


class VersionNotKept(Exception):
    """The version is no longer there for a worker to fetch."""

    field = "step"


class CannotGoBack(Exception):
    """Workers of this kind only ever take later versions."""

    field = "step"


class NotPinned(Exception):
    """Workers follow the newest version already."""


@transaction.atomic
def pin_weights(*, run_id: int, step: int, actor: str, reason: str, now: datetime) -> WeightsOrder:
    """Have workers keep a version although newer ones are published; asking again changes nothing.

    The run's version goes on rising, so data of the pinned one becomes staler with each, and is
    refused from `max_staleness` + 1 versions on. The pin ends with the epoch.

    Raises:
        RunNotFound: If there is no such current run.
        RunIsOver: If it is completed, stopped or failed.
        NoFleet: If it has no workers of ours.
        NoWeights: If the version was never published in this epoch.
        VersionNotKept: If its file is gone.
        CannotGoBack: If it is older than what the workers of a language run are to act with.
    """
    run = _steerable(run_id)
    newest = newest_order(run_id)
    kept = pinned_step(run, newest)
    if newest is not None and kept == step:
        return newest
    version = PolicyVersion.objects.filter(run=run, epoch=run.epoch, step=step).first()
    if version is None:
        raise NoWeights(f"{run.name} has no weights {run.epoch}.{step}")
    _check_kept(run, version)
    acting = run.policy_step if kept is None else kept
    if run.kind == RunKind.LANGUAGE and step < acting:
        raise CannotGoBack(
            f"the inference of a language run takes only later versions than {acting}; "
            "publish the earlier weights as a new version"
        )
    return _ordered(run, kind="pin", step=step, actor=actor, reason=reason, now=now)


@transaction.atomic
def unpin_weights(*, run_id: int, actor: str, reason: str, now: datetime) -> WeightsOrder:
    """Have workers follow the newest version again.

    Raises:
        RunNotFound: If there is no such current run.
        RunIsOver: If it is completed, stopped or failed.
        NoFleet: If it has no workers of ours.
        NotPinned: If they do already.
    """
    run = _steerable(run_id)
    if pinned_step(run, newest_order(run_id)) is None:
        raise NotPinned(f"no version of {run.name} is pinned")
    return _ordered(run, kind="unpin", step=None, actor=actor, reason=reason, now=now)


@transaction.atomic
def sync_weights(*, run_id: int, actor: str, reason: str, now: datetime) -> WeightsOrder:
    """Have the fleet fetch the version that holds anew, and every worker take it again.

    Raises:
        RunNotFound: If there is no such current run.
        RunIsOver: If it is completed, stopped or failed.
        NoFleet: If it has no workers of ours.
        NoWeights: If no version was published in this epoch.
    """
    run = _steerable(run_id)
    if run.policy_step == NO_POLICY_STEP:
        raise NoWeights(f"{run.name} has no weights yet")
    step = pinned_step(run, newest_order(run_id))
    return _ordered(run, kind="sync", step=step, actor=actor, reason=reason, now=now)


def _steerable(run_id: int) -> Run:
    """Return the run, locked: publications and other orders wait."""
    run = Run.objects.current().select_for_update(no_key=True).filter(pk=run_id).first()
    if run is None:
        raise RunNotFound(f"there is no current run with id {run_id}")
    if not run.has_fleet:
        raise NoFleet(f"{run.name} is an outside run: its environments fetch weights on their own")
    if run.status in TERMINAL:
        raise RunIsOver(f"{run.name} is {run.status}: it has no workers any more")
    return run


def _check_kept(run: Run, version: PolicyVersion) -> None:
    if version.file:
        return
    # Its trainer keeps as many in the directory as the deck would.
    newer = PolicyVersion.objects.filter(run=run, pk__gt=version.pk)
    if not weights_directory(run) or newer.count() >= KEPT_FILES:
        raise VersionNotKept(f"the file of version {version.step} is gone")


def _ordered(
    run: Run, *, kind: str, step: int | None, actor: str, reason: str, now: datetime
) -> WeightsOrder:
    before = newest_order(run.pk)
    order = WeightsOrder.objects.create(
        run=run,
        number=before.number + 1 if before else 1,
        kind=kind,
        epoch=run.epoch,
        pinned_step=step,
        newest_step=run.policy_step,
        actor=actor,
        reason=reason,
        at=now,
    )
    words = {
        "pin": f"workers keep version {step}",
        "unpin": "workers follow the newest version again",
        "sync": f"workers take version {run.policy_step if step is None else step} anew",
    }
    record_event(
        run_id=run.pk,
        kind={"pin": "weights_pinned", "unpin": "weights_unpinned", "sync": "weights_synced"}[kind],
        message=words[kind],
        actor=actor,
        reason=reason,
        details={"order": order.number, "pinned_step": step, "newest_step": run.policy_step},
        now=now,
    )
    live.announce(run.pk, "errands", "weights", "fleet")
    return order
